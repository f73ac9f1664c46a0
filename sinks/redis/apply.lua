-- Replaces entities' records, and changes users' keys accordingly. Each entity is changed completely or not at all.
--
-- KEYS  the record of each entity; then, for each change of each entity, the key, and the sink's key beside it if the
--       kind has one; last, the registry
-- ARGV  first, a list in MessagePack, because a separate argument costs the server as much as the command that uses it:
--       the nonces of the records that were read (a record gets a new nonce with each write), 8 bytes each: zeros for
--       a record that did not exist;
--       the number of shapes, and for each shape: the number of changes, and for each change: how it is made (below),
--       its kind, when its key expires (see expire), the number of its arguments, and each argument: '=' and its text,
--       or '?' if each entity has its own;
--       the new record of each entity;
--       for each entity: the number of its shape, and its own arguments.
--       Second, the version of the registry that all this was decided by. If it has changed, the script does nothing.
--
-- A shape is what the changes of many entities have in common. It is sent only once, because unpacking a text costs
-- nearly as much as setting a field of a hash.
--
-- How a change is made: 0: a key of another type is left alone. 1: a key of another type is an error. 2 and 3: like 0
-- and 1, but the script checks the types of these keys before it changes anything. Only changes of sets and hashes can
-- do without that check: their commands fail on a key of another type, and change nothing. An entity's changes with 1
-- are of sets and at most one hash. Changes of sets and rankings come before all others, because the script can undo
-- them.
--
-- Returns three values for whatever was not applied. The first is the entity's number, from 0. The others are 0 and the
-- stored record, if that is not the one that was read; or the number of a change and the type of its key; or the number
-- of a change, and '=' with a member of a ranking whose sum would exceed a double. A single value means that the
-- registry has another version.
local KEYS, call, try, sub, type, unpack = KEYS, redis.call, redis.pcall, string.sub, type, unpack
if (call('HGET', KEYS[#KEYS], 'version') or '') ~= ARGV[2] then return { 0 } end
local args = cmsgpack.unpack(ARGV[1])
local nonces = args[1]
local count = #nonces / 8
local undone = {}
local entity = 1 -- the number of the entity whose changes are made
local shape, first, at -- its shape, the index of its first key in KEYS, and the change under way; 0 before the first

local function refuse(i, found)
  undone[#undone + 1] = entity - 1; undone[#undone + 1] = i; undone[#undone + 1] = found
end

local opposite = { SADD = 'SREM', SREM = 'SADD' }

-- command returns the name of the Redis command that makes the whole change, or nil if one command can't. One command
-- is enough for a set, and for a hash from which nothing is removed and whose fields fit into one command. args[a] is
-- the first of the n arguments of the change.
local function command(kind, a, n)
  if kind == 's' then return args[a + 1] == '=-1' and 'SREM' or 'SADD' end
  if kind == 'h' and n > 1 and n <= MOST and n == 1 + 2 * tonumber(sub(args[a], 2)) then return 'HSET' end
end

-- parse reads the shape at args[a], and returns it and the index that follows it.
local function parse(a)
  local shape = { into = {}, places = {}, keys = 0 }
  local changes = args[a]
  a = a + 1
  for i = 1, changes do
    local kind, n = args[a + 1], args[a + 3]
    local c = { how = args[a], kind = kind, goes = args[a + 2], n = n, at = shape.keys, make = change[kind], args = {} }
    a = a + 4
    c.name = command(kind, a, n)
    -- If one command makes the change, c.args is that command. For a hash, the key takes the place of the number of
    -- fields.
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

-- fits reports whether the types of the keys allow all changes of a shape, whose first key is KEYS[k].
local function fits(shape, k)
  local planned, all = {}, true -- planned: by key, the type that an earlier change will give it
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

-- make makes a change. It returns the error of a command for a set or a hash and, for a ranking, the member whose sum
-- would exceed a double. If the error is that the key has another type, nothing was changed.
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

-- leave removes the members that the shape's first n changes added to sets, and adds those that they removed.
local function leave(n)
  for j = 1, n do
    local c = shape[j]
    if c.did == 1 and opposite[c.name] then call(opposite[c.name], KEYS[first + c.at], c.args[3]) end
  end
end

-- revert undoes the changes of sums, claims and sets that were made for the entity, after one of its changes failed or
-- was refused. Otherwise, when the entity is decided again, its amounts would count twice, or would be wrong because
-- its row has changed meanwhile. Hashes and strings stay: the next change writes them completely.
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

-- run makes the entity's changes, and reports whether it could make all of them. Otherwise it undoes them.
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
  if call('EXISTS', 'replicator:checking') == 1 then -- an audit is running (audit.go): keep the former records
    for i = 1, count do
      if not others[i] and call('HEXISTS', 'replicator:before', KEYS[i]) == 0 then
        call('HSET', 'replicator:before', KEYS[i], olds[i] or '')
      end
    end
  end
end

-- restore puts back the record that an entity had.
local function restore(i)
  if others[i] then return end
  -- If DEL is not permitted, MSET is, because it wrote the records. An empty record counts as none.
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
if not ran then -- a permission is missing, or a key of the sink has another type: the batch fails, and is repeated
  revert()
  for i = entity, count do restore(i) end
  error(err)
end
return undone
