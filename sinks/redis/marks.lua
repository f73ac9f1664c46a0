-- Replaces fields of a hash, if each still has the value that was read and the expected server answers. Otherwise it
-- replaces none.
-- KEYS  the hash
-- ARGV  the expected server's name, or '' for any server; for each field: its name, the value that was read ('' if it
--       did not exist), the new value ('' to remove the field)
-- Returns the outcome (1: replaced, 0: a field has another value, -1: another server), the server's name, and how many
-- keys the server has evicted since it was started. The name and the number are '' if the user may not run INFO.
local function asked(section, field)
  local info = redis.pcall('INFO', section)
  if type(info) ~= 'string' then return '' end -- the user may not run INFO
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
