-- Makes one key show all that one entity contributes to it through one view, unless it shows something later already:
-- in a cluster, where the key and the entity's record live apart and commands may arrive late.
--
-- KEYS  the key; the hash of who contributes what to it; what remembers for a day who was taken back; what is
--       remembered beside the key if the kind needs that
-- ARGV  who contributes, the revision of its record in 20 digits, kind, 1 if a key of another type is an error, 1 if
--       nothing is contributed any more, when the key goes (see expire), then what is contributed: as the kind takes it,
--       but amounts in full
--
-- Returns the type of the key if it is another and that is an error; '=' and a member of a ranking whose sum it would
-- take beyond the doubles, if that is one; else ''.
local key, posts, gone = KEYS[1], KEYS[2], KEYS[3]
local who, revision, kind = ARGV[1], ARGV[2], ARGV[3]
local held = redis.call('HGET', posts, who)
local last = held and string.sub(held, 1, 20) or redis.call('GET', gone)
if last and last > revision then return '' end -- digits of one length: no number is compared

local free, found = typeOf(key, kind)
if not free and ARGV[4] == '1' then return found end

local args, from = ARGV, 7
local kept = ''
if keys[kind] == 2 then
  -- What was contributed is taken back, what is contributed now is added.
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
