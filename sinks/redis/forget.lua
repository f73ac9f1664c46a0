-- Replaces records, or removes them, each if it is the one that was read.
-- KEYS  the records
-- ARGV  for each record: its nonce, the new record ('' for none)
-- Answers with how many were.
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
