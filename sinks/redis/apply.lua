-- Replaces the records of entities and changes what users read accordingly: each entity whole or not at all.
--
-- KEYS  for each entity its record, then for each change its key, and what is remembered beside it if the kind needs
--       that
-- ARGV  the nonces of the records that were read, 8 bytes each: zeros where there was none;
--       the number of shapes, and for each: the number of changes, and for each of these: kind, 1 if a key of another
--       type is an error and 0 if it is left alone, the number of its arguments, and each of them: '=' and its text, or
--       '?' if each entity has its own;
--       for each entity: the number of its shape, its new record, its own arguments
--
-- What many entities have in common is said once: an argument costs as much as a field of a hash.
--
-- Returns what was not applied, three values each: the entity's number, and 0 and '' if its record is not the one that
-- was read, or the number of a change and the type that its key has.
local KEYS, ARGV, call, try, sub = KEYS, ARGV, redis.call, redis.pcall, string.sub
local type, pcall, unpack = type, pcall, unpack
local none = string.rep('\0', 8)
local undone = {}
local entity = 0

local function refuse(i, found)
  undone[#undone + 1] = entity; undone[#undone + 1] = i; undone[#undone + 1] = found
end

-- A hash and a set tell by themselves that a key is of another type, and nothing is done then. So it is only looked at
-- a key beforehand if something else may have been done by the time that it tells.
local tells = { h = true, s = true }

-- command is what the only command of a change begins with, its key left open: of a set, and of a hash from which
-- nothing is removed and that has no more fields than one command takes. Else nil. ARGV[a] is the change's first
-- argument.
local function command(kind, a, n)
  if kind == 's' and n == 2 then return sub(ARGV[a + 1], 1, 2) == '=-' and 'SREM' or 'SADD' end
  if kind == 'h' and n > 1 and n <= MOST and n == 1 + 2 * tonumber(sub(ARGV[a], 2)) then return 'HSET' end
end

-- parse reads a shape. Its first change that must succeed and tells is tried before all others.
local function parse(a)
  local shape = { changes = {}, into = {}, places = {}, keys = 1 }
  local n = tonumber(ARGV[a])
  a = a + 1
  for i = 1, n do
    local c = { number = i, kind = ARGV[a], strict = ARGV[a + 1] == '1', n = tonumber(ARGV[a + 2]), args = {} }
    c.at = shape.keys
    c.make, c.type = change[c.kind], types[c.kind]
    shape.keys = shape.keys + keys[c.kind]
    a = a + 3
    c.args[1] = command(c.kind, a, c.n)
    -- args are the command, with one more in front: the key stands where a hash has its number of fields
    c.whole = c.args[1] ~= nil
    local shift = not c.whole and 0 or c.kind == 'h' and 1 or 2
    for j = 1, c.n do
      if ARGV[a] == '?' then
        shape.into[#shape.into + 1] = c.args; shape.places[#shape.places + 1] = j + shift
      else
        c.args[j + shift] = sub(ARGV[a], 2)
      end
      a = a + 1
    end
    c.last = c.kind == 's' and 3 or c.n + 1
    if c.strict and tells[c.kind] and not shape.first then
      shape.first = c
    else
      c.look = c.strict or not tells[c.kind]
      shape.looks = shape.looks or c.look
      shape.changes[#shape.changes + 1] = c
    end
  end
  shape.own, shape.alone = #shape.into, shape.first and #shape.changes == 0
  return shape, a
end

-- fits looks whether all changes but the first can be made.
local function fits(shape, k)
  local planned, all = {}, true -- planned: keys that are to hold what they do not hold yet
  if shape.first then planned[KEYS[k + shape.first.at]] = shape.first.type end
  for _, c in ipairs(shape.changes) do
    if c.look then
      local key = KEYS[k + c.at]
      local free, found = typeOf(key, c.kind)
      local plan = planned[key]
      if plan and plan ~= c.type then free, found = false, plan end
      if free and c.strict then planned[key] = c.type end
      c.shown = free
      if c.strict and not free then
        all = false
        refuse(c.number, found)
      end
    end
  end
  return all
end

local function make(c, k, shown)
  if not c.whole then return c.make(KEYS[k + c.at], KEYS[k + c.at + 1], c.args, 1, c.n, shown) end
  if not shown then return end
  c.args[2] = KEYS[k + c.at]
  local answer = try(unpack(c.args, 1, c.last))
  if type(answer) == 'table' then return answer end
end

-- start makes the first change.
local function start(first, k)
  local err = make(first, k, true)
  if not err then return true end
  if not isOtherType(err) then error(err) end
  refuse(first.number, call('TYPE', KEYS[k + first.at]).ok)
  return false
end

-- run makes an entity's changes if all of them can be made.
local function run(shape, k)
  if shape.looks and not fits(shape, k) then return false end
  if shape.first and not start(shape.first, k) then return false end
  for _, c in ipairs(shape.changes) do
    local err = make(c, k, not c.look or c.shown)
    if err and (c.look or not isOtherType(err)) then error(err) end
  end
  return true
end

local nonces, shapes, a = ARGV[1], {}, 3
for i = 0, tonumber(ARGV[2]) - 1 do
  shapes[tostring(i)], a = parse(a)
end
local k, last = 1, #KEYS
while k <= last do
  local shape, record = shapes[ARGV[a]], KEYS[k]
  local old = call('SET', record, ARGV[a + 1], 'GET') -- put back if it was another than expected
  local own, into, places = shape.own, shape.into, shape.places
  a = a + 2
  local nonce = old and old ~= '' and sub(old, 1, 8) or none
  local done, ran, err = nonce == sub(nonces, 8 * entity + 1, 8 * entity + 8), true, nil
  if not done then
    refuse(0, '')
  else
    for i = 1, own do into[i][places[i]] = ARGV[a + i - 1] end
    if shape.alone then
      ran, done = pcall(start, shape.first, k)
    else
      ran, done = pcall(run, shape, k)
    end
    if not ran then err, done = done, false end
  end
  if not done then
    if old then call('SET', record, old) else call('DEL', record) end
  end
  if not ran then error(err) end -- a permission is missing: what was done will be done again
  k, a, entity = k + shape.keys, a + own, entity + 1
end
return undone
