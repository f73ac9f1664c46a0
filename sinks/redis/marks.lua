-- Replaces fields of a hash, all or none: only if each still holds what was read.
-- KEYS  the hash
-- ARGV  for each field: its name, what was read ('' for nothing), what is to be ('' for nothing)
for i = 1, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then return 0 end
end
for i = 1, #ARGV, 3 do
  if ARGV[i + 2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
  end
end
return 1
