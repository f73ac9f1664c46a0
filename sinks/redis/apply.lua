-- Replaces the records of entities and changes what users read accordingly: each entity whole or not at all.
--
-- KEYS  for each entity its record, then for each change its key, and what is remembered beside it if the kind needs that
-- ARGV  for each entity: the nonce of the record that was read ('' if there was none), the new record, the number of
--       changes, and for each change: kind, 1 if a key of another type is an error and 0 if it is left alone, the number of
--       arguments that follow, the arguments
--
-- Returns what was not applied, three values each: the entity's number, and 0 and '' if its record is not the one that was
-- read, or the number of a change and the type that its key has.
local undone = {}
local planned = {} -- keys that are to hold what they do not hold yet
local k, a, entity = 1, 1, 0

local function refuse(i, found)
  undone[#undone + 1] = entity; undone[#undone + 1] = i; undone[#undone + 1] = found
end

-- single makes an entity's only change, to a hash or a set. A type that is not theirs shows by itself, with nothing done.
local function single(_, k, at)
  local key = KEYS[k]
  local done, err = pcall(change[ARGV[at]], key, key, ARGV, at + 3, at + 2 + tonumber(ARGV[at + 2]), true)
  if done then return true end
  local text = type(err) == 'table' and err.err or err
  if not string.find(text, 'WRONGTYPE', 1, true) then error(err) end
  if ARGV[at + 1] ~= '1' then return true end
  refuse(1, redis.call('TYPE', key).ok)
  return false
end

-- several makes an entity's changes if all of them can be made.
local function several(changes, key, at)
  local shown, fits = {}, true
  local k, a = key, at
  for i = 1, changes do
    local kind, strict = ARGV[a], ARGV[a + 1] == '1'
    local free, found = typeOf(KEYS[k], kind)
    local plan = planned[KEYS[k]]
    if plan and plan ~= types[kind] then free, found = false, plan end
    if free and strict then planned[KEYS[k]] = types[kind] end
    shown[i] = free
    if strict and not free then
      fits = false
      refuse(i, found)
    end
    k, a = k + keys[kind], a + 3 + tonumber(ARGV[a + 2])
  end
  if not fits then return false end
  for i = 1, changes do
    local kind, n = ARGV[at], tonumber(ARGV[at + 2])
    change[kind](KEYS[key], KEYS[key + 1], ARGV, at + 3, at + 2 + n, shown[i])
    key, at = key + keys[kind], at + 3 + n
  end
  return true
end

while k <= #KEYS do
  local record, nonce, changes = KEYS[k], ARGV[a], tonumber(ARGV[a + 2])
  local old = redis.call('SET', record, ARGV[a + 1], 'GET') -- put back if it was another than expected
  local done = nonce == (old and string.sub(old, 1, 8) or '')
  local key, at, ran, err = k + 1, a + 3, true, nil
  if not done then
    refuse(0, '')
  elseif changes > 0 then
    local make = several
    if changes == 1 and (ARGV[at] == 'h' or ARGV[at] == 's') then make = single end
    ran, done = pcall(make, changes, key, at)
    if not ran then err, done = done, false end
  end
  if not done then
    if old then redis.call('SET', record, old) else redis.call('DEL', record) end
  end
  if not ran then error(err) end -- a permission is missing: what was done will be done again
  for _ = 1, changes do
    key, at = key + keys[ARGV[at]], at + 3 + tonumber(ARGV[at + 2])
  end
  k, a, entity = key, at, entity + 1
end
return undone
