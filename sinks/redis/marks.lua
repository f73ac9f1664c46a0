-- Replaces fields of a hash, all or none: only if each still holds what was read, and the server is the one it should be.
-- KEYS  the hash
-- ARGV  the server's name, or '' for any; for each field: its name, what was read ('' for nothing), what is to be ('' for
--       nothing)
-- Answers with how it went (1: replaced, 0: a field holds something else, -1: another server), the server's name, and how
-- many keys it has evicted since it was started. What the user may not ask is ''.
local function asked(section, field)
  local info = redis.pcall('INFO', section)
  if type(info) ~= 'string' then return '' end -- the user may not ask
  return string.match(info, field .. ':(%x+)') or ''
end
local server = asked('server', 'run_id') .. asked('replication', 'master_replid')
local evicted = asked('stats', 'evicted_keys')
if ARGV[1] ~= '' and ARGV[1] ~= server then return {-1, server, evicted} end
for i = 2, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i + 1] then return {0, server, evicted} end
end
for i = 2, #ARGV, 3 do
  if ARGV[i + 2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
  end
end
return {1, server, evicted}
