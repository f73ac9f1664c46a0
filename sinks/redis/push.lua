-- Makes a key show what an entity contributes to it through a view, unless a later contribution has already arrived.
-- This is for clusters, where the key and the entity's record are in different slots, and commands may arrive late.
--
-- KEYS  the key; the hash of posts; the key that holds, for a day, the revision at which the contribution was removed;
--       the sink's key beside the key, if the kind has one
-- ARGV  who contributes (the view's id and the record's key), the revision of the record in 20 digits, the kind, 1 if a
--       key of another type is an error, 1 if nothing is contributed any more, when the key expires (see expire); then
--       the contribution: the arguments of the kind's change, with the full amounts
--
-- Returns the type of the key if it is another one and that is an error; '=' and a member of a ranking if its sum would
-- exceed a double and that is an error; otherwise ''.
local key, posts, gone = KEYS[1], KEYS[2], KEYS[3]
local who, revision, kind = ARGV[1], ARGV[2], ARGV[3]
local held = redis.call('HGET', posts, who)
local last = held and string.sub(held, 1, 20) or redis.call('GET', gone)
if last and last > revision then return '' end -- the digits are compared as texts of equal length

local free, found = typeOf(key, kind)
if not free and ARGV[4] == '1' then return found end

local args, from = ARGV, 7
local kept = ''
if keys[kind] == 2 then
  -- Subtract the old contribution, and add the new one.
  args = {}
  local old = held and string.sub(held, 21) or ''
  if old ~= '' then
    local pairs = cmsgpack.unpack(old)
    for i = 1, #pairs, 2 do
      local amount = pairs[i + 1]
      if kind == 'z' then amount = '-' .. string.sub(amount, 2) else amount = negated(amount) end
      args[#args + 1] = pairs[i]; args[#args + 1] = amount
    end
  end
  local now = {}
  for i = from, #ARGV do
    now[#now + 1] = ARGV[i]; args[#args + 1] = ARGV[i]
  end
  kept = cmsgpack.pack(now)
  from = 1
end
local ran, err, beyond = pcall(change[kind], key, KEYS[4], args, from, #args, free)
if err or beyond and ARGV[4] == '1' then
  if (not ran or beyond) and keys[kind] == 2 then undo(kind, key, KEYS[4], args, from, done, free) end
  if err then error(err) end
  return '=' .. beyond
end
if free then expire(key, ARGV[6]) end
if ARGV[5] == '1' then
  redis.call('HDEL', posts, who)
  redis.call('SET', gone, revision, 'EX', 86400)
else
  redis.call('HSET', posts, who, revision .. kept)
  redis.call('DEL', gone)
end
return ''
