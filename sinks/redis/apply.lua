-- Replaces the records of entities and changes what users read accordingly: each entity whole or not at all.
--
-- KEYS  the record of each entity; then, entity by entity, for each change its key, and what is remembered beside it if
--       the kind needs that; last, the hash of horizons
-- ARGV  a list in MessagePack: an argument of its own for each costs the server as much as what is done with it.
--       the nonces of the records that were read, 8 bytes each: zeros where there was none;
--       the number of shapes, and for each: the number of changes, and for each of these: how it is made, its kind, when
--       its key goes (see expire), the number of its arguments, and each of them: '=' and its text, or '?' if each entity
--       has its own;
--       the new record of each entity;
--       for each entity: the number of its shape, its own arguments
--       Then, by itself, the version of the horizons that all of it was decided by. Nothing is done if they have another.
--
-- What many entities have in common is said once: to unpack a text costs nearly as much as a field of a hash.
--
-- How a change is made: 0 and a key of another type is left alone, 1 and that is an error; or the key is looked at
-- beforehand: 2 and one of another type is left alone, 3 and that is an error. Only sets and hashes tell by themselves
-- that a key is of another type, and nothing is done then. What must succeed and is not looked at is one hash at most,
-- and sets and rankings, which stand in front of all else and can be put back.
--
-- Returns what was not applied, three values each: the entity's number, and 0 and the record that stands there if it is
-- not the one that was read, or the number of a change and the type that its key has (or '=' and the member of a
-- ranking whose sum it would take beyond the doubles). One value alone: the horizons have another version.
local KEYS, call, try, sub, type, unpack = KEYS, redis.call, redis.pcall, string.sub, type, unpack
if (call('HGET', KEYS[#KEYS], 'version') or '') ~= ARGV[2] then return { 0 } end
local args = cmsgpack.unpack(ARGV[1])
local nonces = args[1]
local count = #nonces / 8
local undone = {}
local entity = 1 -- the one that is applied
local shape, first, at -- its own, the number of its first key, and which of its changes is made; 0 before the first

local function refuse(i, found)
  undone[#undone + 1] = entity - 1; undone[#undone + 1] = i; undone[#undone + 1] = found
end

local opposite = { SADD = 'SREM', SREM = 'SADD' }

-- command is what the only command of a change begins with, its key left open: of a set, and of a hash from which
-- nothing is removed and that has no more fields than one command takes. Else nil. args[a] is the change's first
-- argument, n their number.
local function command(kind, a, n)
  if kind == 's' then return args[a + 1] == '=-1' and 'SREM' or 'SADD' end
  if kind == 'h' and n > 1 and n <= MOST and n == 1 + 2 * tonumber(sub(args[a], 2)) then return 'HSET' end
end

-- parse reads a shape.
local function parse(a)
  local shape = { into = {}, places = {}, keys = 0 }
  local changes = args[a]
  a = a + 1
  for i = 1, changes do
    local kind, n = args[a + 1], args[a + 3]
    local c = { how = args[a], kind = kind, goes = args[a + 2], n = n, at = shape.keys, make = change[kind], args = {} }
    a = a + 4
    c.name = command(kind, a, n)
    -- args are the command, if there is only one: the key stands where a hash has its number of fields
    local shift = not c.name and 0 or kind == 'h' and 1 or 2
    for j = 1, n do
      if args[a] == '?' then
        shape.into[#shape.into + 1] = c.args; shape.places[#shape.places + 1] = j + shift
      else
        c.args[j + shift] = sub(args[a], 2)
      end
      a = a + 1
    end
    c.args[1] = c.name or c.args[1]
    c.last = shift == 2 and 3 or n + 1
    shape.keys = shape.keys + keys[kind]
    shape.looks = shape.looks or c.how > 1
    shape[i] = c
  end
  shape.own = #shape.into
  return shape, a
end

-- fits looks whether all changes can be made.
local function fits(shape, k)
  local planned, all = {}, true -- planned: keys that are to hold what they do not hold yet
  for i, c in ipairs(shape) do
    local key = KEYS[k + c.at]
    if c.how == 1 then
      planned[key] = types[c.kind]
    elseif c.how > 1 then
      local free, found = typeOf(key, c.kind)
      local plan = planned[key]
      if plan and plan ~= types[c.kind] then free, found = false, plan end
      if free and c.how == 3 then planned[key] = types[c.kind] end
      c.shown = free
      if c.how == 3 and not free then
        all = false
        refuse(i, found)
      end
    end
  end
  return all
end

-- make makes a change; an error is returned if it is that the key is of another type, and nothing was done then; and
-- what change returns behind that.
local function make(c, k)
  c.did = nil
  local shown, answer, beyond = c.how < 2 or c.shown, nil, nil
  if c.name then
    if not shown then return end
    c.args[2] = KEYS[k + c.at]
    answer = try(unpack(c.args, 1, c.last))
    c.did = answer
  else
    answer, beyond = c.make(KEYS[k + c.at], KEYS[k + c.at + 1], c.args, 1, c.n, shown)
  end
  if type(answer) == 'table' then return answer end
  if shown then expire(KEYS[k + c.at], c.goes) end
  return nil, beyond
end

-- leave takes single members out of sets that its first n changes put there, and puts back those that they took out.
local function leave(n)
  for j = 1, n do
    local c = shape[j]
    if c.did == 1 and opposite[c.name] then call(opposite[c.name], KEYS[first + c.at], c.args[3]) end
  end
end

-- revert takes back what an entity's changes are remembered to have done, and its members of sets, when one of them
-- failed or was refused: it is all done again later, and would count twice; or it is not, as the row has changed
-- meanwhile. What hashes and texts show is written whole by then.
local function revert()
  for j = at, 1, -1 do
    local c = shape[j]
    if keys[c.kind] == 2 then
      local key = KEYS[first + c.at]
      undo(c.kind, key, KEYS[first + c.at + 1], c.args, 1, j < at and c.n or done, c.how < 2 or c.shown)
    end
  end
  pcall(leave, at)
end

-- run makes an entity's changes if all of them can be made.
local function run(k)
  if shape.looks and not fits(shape, k) then return false end
  for i = 1, #shape do
    local c = shape[i]
    at, done = i, 0
    local err, beyond = make(c, k)
    if err and (c.how > 1 or not isOtherType(err)) then error(err) end
    if (err or beyond) and c.how % 2 == 1 then
      refuse(i, err and call('TYPE', KEYS[k + c.at]).ok or '=' .. beyond)
      revert()
      return false
    end
  end
  return true
end

local shapes, a = {}, 3
for i = 1, args[2] do
  shapes[i], a = parse(a)
end

local olds = call('MGET', unpack(KEYS, 1, count))
local records, others, none = {}, {}, string.rep('\0', 8)
for i = 1, count do
  local old = olds[i]
  if (old and old ~= '' and sub(old, 1, 8) or none) == sub(nonces, 8 * i - 7, 8 * i) then
    local n = #records
    records[n + 1] = KEYS[i]; records[n + 2] = args[a]
  else
    others[i] = true
  end
  a = a + 1
end
if #records > 0 then
  call('MSET', unpack(records))
  if call('EXISTS', 'replicator:checking') == 1 then -- sums are checked (sums.go): what a record was before is kept
    for i = 1, count do
      if not others[i] and call('HEXISTS', 'replicator:before', KEYS[i]) == 0 then
        call('HSET', 'replicator:before', KEYS[i], olds[i] or '')
      end
    end
  end
end

local function restore(i)
  if others[i] then return end
  -- What wrote the records is permitted, whatever else is not; an empty record is none.
  if olds[i] or type(try('DEL', KEYS[i])) == 'table' then call('MSET', KEYS[i], olds[i] or '') end
end

local function all()
  local k = count + 1
  for i = 1, count do
    entity = i
    shape, first, at = shapes[args[a]], k, 0
    local own, into, places = shape.own, shape.into, shape.places
    if others[i] then
      refuse(0, olds[i] or '')
    else
      for j = 1, own do into[j][places[j]] = args[a + j] end
      if not run(k) then restore(i) end
    end
    a, k = a + 1 + own, k + shape.keys
  end
end

local ran, err = pcall(all)
if not ran then -- a permission is missing, or what is remembered is of another type: it will be done again
  revert()
  for i = entity, count do restore(i) end
  error(err)
end
return undone
