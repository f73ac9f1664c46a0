-- Replaces or removes each of some records, if it is still the one that was read.
-- KEYS  the records
-- ARGV  for each record: the nonce that was read (the record's first 8 bytes, which each write renews), the new record
--       ('' to remove the record)
-- Returns the number of records that were replaced or removed.
local n = 0
for i, key in ipairs(KEYS) do
  if redis.call('GETRANGE', key, 0, 7) == ARGV[2 * i - 1] then
    if ARGV[2 * i] == '' then
      redis.call('DEL', key)
    else
      redis.call('SET', key, ARGV[2 * i])
    end
    n = n + 1
  end
end
return n
