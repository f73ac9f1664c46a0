-- The part that precedes apply.lua, push.lua, posted.lua and sums.lua: exact decimal sums, and how a contribution
-- changes users' keys.

-- Nothing that must stay exact goes through a Lua number, which is a double: sums are decimal text. Only texts of at
-- most 15 characters without a fraction, far below 2^53, are added as numbers.
local function split(s)
  local negative = string.sub(s, 1, 1) == '-'
  if negative then s = string.sub(s, 2) end
  local dot = string.find(s, '.', 1, true)
  if dot then return negative, string.sub(s, 1, dot - 1), string.sub(s, dot + 1) end
  return negative, s, ''
end

-- damaged ends a script because a stored sum or count is not a number: another program wrote it.
local function damaged() error({ err = 'DAMAGED what is remembered is no sum' }) end

-- add returns a + b, where a is a stored sum.
local function add(a, b)
  if b == '0' then return a end
  if #a <= 15 and #b <= 15 and not string.find(a, '.', 1, true) and not string.find(b, '.', 1, true) then
    return string.format('%.0f', (tonumber(a) or damaged()) + tonumber(b))
  end
  if string.find(a, '[^%d.-]') then damaged() end
  local negative, whole, fraction = split(a)
  local otherNegative, otherWhole, otherFraction = split(b)
  local places = math.max(#fraction, #otherFraction)
  local x = whole .. fraction .. string.rep('0', places - #fraction)
  local y = otherWhole .. otherFraction .. string.rep('0', places - #otherFraction)
  local n = math.max(#x, #y)
  n = n + (-n) % 14
  x, y = string.rep('0', n - #x) .. x, string.rep('0', n - #y) .. y
  local sign = 1
  if negative ~= otherNegative then
    sign = -1
    if x < y then x, y, negative = y, x, otherNegative end
  end
  local out, carry = {}, 0
  for i = n - 13, 1, -14 do -- 14 digits at a time
    local d = tonumber(string.sub(x, i, i + 13)) + sign * tonumber(string.sub(y, i, i + 13)) + carry
    carry = 0
    if d >= 1e14 then d, carry = d - 1e14, 1 elseif d < 0 then d, carry = d + 1e14, -1 end
    table.insert(out, 1, string.format('%014.0f', d))
  end
  if carry == 1 then table.insert(out, 1, '1') end
  local digits = table.concat(out)
  local before = string.gsub(string.sub(digits, 1, #digits - places), '^0+', '')
  local after = string.gsub(string.sub(digits, #digits - places + 1), '0+$', '')
  if before == '' then before = '0' end
  local sum = before
  if after ~= '' then sum = sum .. '.' .. after end
  if negative and sum ~= '0' then sum = '-' .. sum end
  return sum
end

-- The most arguments of a command that are unpacked at once: Lua's stack takes 8,000 values.
local MOST = 4000

-- change has a function for each kind of contribution. The function changes the user's key, and the sink's key beside
-- it, as args[from] to args[upto] say. If shown is false, the user's key holds another program's value of another type,
-- and is left alone. The functions for hashes and sets return the error of a command that fails. If the error is that
-- the key has another type, nothing was changed.
local change = {}

-- How many arguments of the change under way are applied, and must be undone if it fails.
local done = 0

-- hash: the number of fields to set, their names and values, then the names of fields to remove.
change.h = function(key, _, args, from, upto, shown)
  if not shown then return end
  local last = from + 2 * tonumber(args[from])
  for i = from + 1, last, MOST do
    local answer = redis.pcall('HSET', key, unpack(args, i, math.min(i + MOST - 1, last)))
    if type(answer) == 'table' then return answer end
  end
  for i = last + 1, upto, MOST do
    local answer = redis.pcall('HDEL', key, unpack(args, i, math.min(i + MOST - 1, upto)))
    if type(answer) == 'table' then return answer end
  end
end

-- json: the text, or nothing to remove the key.
change.j = function(key, _, args, from, upto, shown)
  if not shown then return end
  if from <= upto then redis.call('SET', key, args[from]) else redis.call('DEL', key) end
end

-- The other kinds take pairs: a member, and the amount to add to the member's sum. A ranking's amount begins with a
-- sign: see change.z. All but unique write the user's key first: if that is not permitted, the sink's key stays as it
-- is.

-- set: no other entity can claim the member, so claims are not counted.
change.s = function(key, _, args, from, upto, shown)
  if not shown then return end
  for i = from, upto, 2 do
    local command = 'SADD'
    if string.sub(args[i + 1], 1, 1) == '-' then command = 'SREM' end
    local answer = redis.pcall(command, key, args[i])
    if type(answer) == 'table' then return answer end
  end
end

local function isOtherType(err) return string.find(err.err, 'WRONGTYPE', 1, true) ~= nil end

local function claimed(beside, member, amount)
  local sum = add(redis.call('HGET', beside, member) or '0', amount)
  if sum == '0' or string.sub(sum, 1, 1) == '-' then return nil end
  return sum
end

local function keep(beside, member, sum)
  if sum then redis.call('HSET', beside, member, sum) else redis.call('HDEL', beside, member) end
end

-- members: a set whose members several entities may claim.
change.m = function(key, beside, args, from, upto, shown)
  for i = from, upto, 2 do
    local sum = claimed(beside, args[i], args[i + 1])
    if shown then redis.call(sum and 'SADD' or 'SREM', key, args[i]) end
    keep(beside, args[i], sum)
    done = i + 2 - from
  end
end

-- unique: the key shows one of the members that claim the value.
change.u = function(key, beside, args, from, upto, shown)
  for i = from, upto, 2 do
    keep(beside, args[i], claimed(beside, args[i], args[i + 1]))
    done = i + 2 - from
  end
  if not shown then return end
  local holder = redis.call('GET', key)
  if holder and redis.call('HEXISTS', beside, holder) == 1 then return end
  local other = redis.call('HRANDFIELD', beside)
  if other then redis.call('SET', key, other) elseif holder then redis.call('DEL', key) end
end

-- counter: the key is set to the stored sum, so a number that was changed by hand is corrected.
change.c = function(key, beside, args, from, upto, shown)
  local sum = redis.call('GET', beside) or '0'
  for i = from, upto, 2 do sum = add(sum, args[i + 1]) end
  if sum == '0' then
    if shown then redis.call('DEL', key) end
    redis.call('DEL', beside)
  else
    if shown then redis.call('SET', key, sum) end
    redis.call('SET', beside, sum)
  end
end

local function negated(s)
  if s == '0' then return s end
  if string.sub(s, 1, 1) == '-' then return string.sub(s, 2) end
  return '-' .. s
end

-- score sets the score of a ranking's member to its sum, and reports whether the sum is infinite as a double. ZADD
-- refuses the digits of such a sum, and of a sum so near to 0 that it is 0 as a double. Then the script passes '+inf',
-- '-inf' or '0' instead.
local function score(key, sum, member)
  local answer = redis.pcall('ZADD', key, sum, member)
  if type(answer) ~= 'table' then return false end
  local nearest = tonumber(sum)
  local infinite = nearest == math.huge or nearest == -math.huge
  if not infinite and nearest ~= 0 then error(answer) end
  redis.call('ZADD', key, infinite and (nearest > 0 and '+inf' or '-inf') or '0', member)
  return infinite
end

-- ranking: the score is the double nearest to the exact sum. A member stays while a cell claims it, even with a sum of
-- 0. So the number of claims is stored before the sum ('2 -1.5'). '+' before an amount adds a claim, '-' removes one,
-- and '=' only writes the score again. Returns nil and, if an addition took a member's sum beyond the range of a double,
-- that member. The change is complete then, and the caller must undo it. A removal can't be refused, so it may take a
-- sum beyond that range. The score is then infinite until other amounts are removed.
change.z = function(key, beside, args, from, upto, shown)
  local beyond
  for i = from, upto, 2 do
    local member, what, amount = args[i], string.sub(args[i + 1], 1, 1), string.sub(args[i + 1], 2)
    local n, sum = string.match(redis.call('HGET', beside, member) or '0 0', '^(%d+) (.*)$')
    n = tonumber(n) or damaged()
    if what == '+' then n, sum = n + 1, add(sum, amount) end
    if what == '-' then n, sum = n - 1, add(sum, negated(amount)) end
    if n <= 0 then
      if shown then redis.call('ZREM', key, member) end
      redis.call('HDEL', beside, member)
    else
      local infinite = shown and score(key, sum, member)
      redis.call('HSET', beside, member, string.format('%.0f ', n) .. sum)
      if infinite and what == '+' then
        beyond = beyond or {}
        beyond[member] = true
      elseif beyond and not infinite then
        beyond[member] = nil
      end
    end
    done = i + 2 - from
  end
  return nil, beyond and next(beyond)
end

-- undo undoes the first n arguments of a change: it adds what they subtracted, and subtracts what they added.
local back = { ['+'] = '-', ['-'] = '+', ['='] = '=' }
local function undo(kind, key, beside, args, from, n, shown)
  local against = {}
  for i = from, from + n - 1, 2 do
    against[#against + 1] = args[i]
    local amount = args[i + 1]
    against[#against + 1] = kind == 'z' and back[string.sub(amount, 1, 1)] .. string.sub(amount, 2) or negated(amount)
  end
  if n > 0 then pcall(change[kind], key, beside, against, 1, n, shown) end
end

-- expire sets when a key expires: after some milliseconds, in decimal digits; '-1': never; '': as before.
local function expire(key, after)
  if after == '-1' then
    redis.call('PERSIST', key)
  elseif after ~= '' then
    redis.call('PEXPIRE', key, after)
  end
end

local types = { h = 'hash', j = 'string', s = 'set', m = 'set', u = 'string', c = 'string', z = 'zset', d = 'set' }

-- The number of keys of a change, by kind: the user's key and, for some kinds, the sink's key beside it.
local keys = { h = 1, j = 1, s = 1, m = 2, u = 2, c = 2, z = 2, d = 1 }

-- typeOf returns true if the key has the type of the kind, or does not exist. Otherwise it returns false and the type.
local function typeOf(key, kind)
  local found = redis.call('TYPE', key).ok
  if found == 'none' or found == types[kind] then return true end
  return false, found
end
