-- Replaces the records of entities and changes what users read accordingly: each entity whole or not at all.
--
-- KEYS  for each entity its record, then for each change its key and what is remembered beside it
-- ARGV  for each entity: the nonce of the record that was read ('' if there was none), the new record, the number of
--       changes, and for each change: kind, 1 if a key of another type is an error and 0 if it is left alone, the number of
--       arguments that follow, the arguments
--
-- Returns what was not applied, three values each: the entity's number, and 0 and '' if its record is not the one that was
-- read, or the number of a change and the type that its key has.
local undone = {}
local planned = {} -- keys that are to hold what they do not hold yet
local k, a, entity = 1, 1, 0
while k <= #KEYS do
  local record, nonce, new, changes = KEYS[k], ARGV[a], ARGV[a + 1], tonumber(ARGV[a + 2])
  local fresh = redis.call('GETRANGE', record, 0, 7) == nonce
  if not fresh then
    undone[#undone + 1] = entity; undone[#undone + 1] = 0; undone[#undone + 1] = ''
  end
  local shown, fits, key, at = {}, true, k + 1, a + 3
  for i = 1, changes do
    if fresh then
      local free, found = typeOf(KEYS[key], ARGV[at])
      local plan = planned[KEYS[key]]
      if plan and plan ~= types[ARGV[at]] then free, found = false, plan end
      if free and ARGV[at + 1] == '1' then planned[KEYS[key]] = types[ARGV[at]] end
      shown[i] = free
      if not free and ARGV[at + 1] == '1' then
        fits = false
        undone[#undone + 1] = entity; undone[#undone + 1] = i; undone[#undone + 1] = found
      end
    end
    key, at = key + 2, at + 3 + tonumber(ARGV[at + 2])
  end
  if fresh and fits then
    local key, at = k + 1, a + 3
    for i = 1, changes do
      local n = tonumber(ARGV[at + 2])
      change[ARGV[at]](KEYS[key], KEYS[key + 1], at + 3, at + 2 + n, shown[i])
      key, at = key + 2, at + 3 + n
    end
    redis.call('SET', record, new)
  end
  k, a, entity = key, at, entity + 1
end
return undone
