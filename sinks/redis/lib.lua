-- What stands in front of every script: exact decimal sums, and how a contribution changes what users read.

-- Nothing that must stay exact goes through a Lua number, which is a double: sums are decimal text. Only texts of at
-- most 15 characters without a fraction, far below 2^53, are added as numbers.
local function split(s)
  local negative = string.sub(s, 1, 1) == '-'
  if negative then s = string.sub(s, 2) end
  local dot = string.find(s, '.', 1, true)
  if dot then return negative, string.sub(s, 1, dot - 1), string.sub(s, dot + 1) end
  return negative, s, ''
end

-- damaged ends a script where what is remembered is no number, as somebody else wrote it.
local function damaged() error({ err = 'DAMAGED what is remembered is no sum' }) end

-- add is a + b; a is what is remembered.
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

-- How many of a command's arguments are unpacked at once: Lua's stack takes 8,000.
local MOST = 4000

-- change has a function for each kind of contribution. They change what users read at key and what is remembered beside
-- it, by args[from … upto]. Where shown is false, key holds somebody else's value of another type and is left alone.
-- Those of hashes and sets return an error that Redis answers with: if it is that the key has another type, nothing was
-- changed.
local change = {}

-- How many arguments of the change under way are remembered: what can be taken back if it fails.
local done = 0

-- hash: the number of fields set, their names and values, then the names of fields that are gone.
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

-- json: the text, or nothing.
change.j = function(key, _, args, from, upto, shown)
  if not shown then return end
  if from <= upto then redis.call('SET', key, args[from]) else redis.call('DEL', key) end
end

-- The other kinds take pairs of a member and an amount that is added to what is claimed for it; a ranking's amount has
-- a letter in front of it, see there. What users read is written first: if that is not permitted, what is remembered
-- stays as it was.

-- set: nobody else can claim the member, so nothing need be remembered.
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

-- set whose members several entities may claim.
change.m = function(key, beside, args, from, upto, shown)
  for i = from, upto, 2 do
    local sum = claimed(beside, args[i], args[i + 1])
    if shown then redis.call(sum and 'SADD' or 'SREM', key, args[i]) end
    keep(beside, args[i], sum)
    done = i + 2 - from
  end
end

-- unique: one of those that claim the value.
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

-- counter: what is remembered is the truth, so that a number changed by hand is put right.
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

-- score shows a ranking's sum, and reports whether it is infinite to a double. ZADD refuses the digits of what is, and
-- of what is 0 to a double and not 0, but takes the infinite by its name.
local function score(key, sum, member)
  local answer = redis.pcall('ZADD', key, sum, member)
  if type(answer) ~= 'table' then return false end
  local nearest = tonumber(sum)
  local infinite = nearest == math.huge or nearest == -math.huge
  if not infinite and nearest ~= 0 then error(answer) end
  redis.call('ZADD', key, infinite and (nearest > 0 and '+inf' or '-inf') or '0', member)
  return infinite
end

-- ranking: the score is the double nearest to the exact sum. A member stays as long as somebody claims it, whatever its
-- sum: 0 is a score. So claims are counted beside the sum ('2 -1.5'): + before an amount is one more, - one that is
-- taken back, = shows again what is remembered. Returns nothing, and the member whose sum an addition took beyond the
-- doubles, if there is one. All is done then, and it is for the caller to take it back: what is taken away can't be
-- refused, so a sum may be beyond them, and is shown as infinite until others of its amounts go.
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

-- undo takes back the first n arguments of a change: it adds what was taken away, and takes away what was added.
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

-- expire lets a key go after some milliseconds, by their digits, or stay, by '-1'; '' leaves that as it is.
local function expire(key, after)
  if after == '-1' then
    redis.call('PERSIST', key)
  elseif after ~= '' then
    redis.call('PEXPIRE', key, after)
  end
end

local types = { h = 'hash', j = 'string', s = 'set', m = 'set', u = 'string', c = 'string', z = 'zset', d = 'set' }

-- How many keys a change has: its own, and for some kinds the one beside it.
local keys = { h = 1, j = 1, s = 1, m = 2, u = 2, c = 2, z = 2, d = 1 }

-- typeOf is what key holds now: kind's own type (or nothing), or the name of another.
local function typeOf(key, kind)
  local found = redis.call('TYPE', key).ok
  if found == 'none' or found == types[kind] then return true end
  return false, found
end
