-- Steps of a check of sums (audit.go). Each but the first does nothing unless the check is still the one under way.
-- KEYS  the check that is under way; the records as they were when it began; then
--       begin: what is remembered beside each key · page: records · mend: each key, and what is remembered beside it
-- ARGV  the step, the check's name, the kind of the view's claims; then
--       begin: of each key the member ('' of a counter)
--       mend: of each key the member, '1' if what is remembered is to be thrown away, and what is added then: claims and
--       amount
-- Answers 0 where another check is under way; else begin: the sums, page: the records before and now, mend and end: 1.
local step, name, kind = ARGV[1], ARGV[2], ARGV[3]
local held = redis.call('GET', KEYS[1])
if step == 'begin' then
  if held then return 0 end
  redis.call('DEL', KEYS[2])
elseif held ~= name then
  return 0
end
if step == 'end' then
  redis.call('DEL', KEYS[1], KEYS[2])
  return 1
end
redis.call('SET', KEYS[1], name, 'EX', '60')

if step == 'begin' then
  local sums = {}
  for i = 3, #KEYS do
    local found
    if kind == 'c' then found = redis.pcall('GET', KEYS[i]) else found = redis.pcall('HGET', KEYS[i], ARGV[i + 1]) end
    if type(found) == 'table' then found = '?' end -- of another type
    sums[i - 2] = found
  end
  return sums
end

if step == 'page' then
  local before = redis.call('HGETALL', KEYS[2])
  redis.call('DEL', KEYS[2])
  local records = {}
  if #KEYS > 2 then records = redis.call('MGET', unpack(KEYS, 3)) end
  return { before, records }
end

-- mendRanking adds claims and an amount to what is remembered of a member.
local function mendRanking(key, beside, member, claims, amount, shown)
  local n, sum = string.match(redis.call('HGET', beside, member) or '0 0', '^(%d+) (.*)$')
  n, sum = (tonumber(n) or damaged()) + tonumber(claims), add(sum, amount)
  if n <= 0 then
    if shown then redis.call('ZREM', key, member) end
    redis.call('HDEL', beside, member)
  else
    if shown then score(key, sum, member) end
    redis.call('HSET', beside, member, string.format('%.0f ', n) .. sum)
  end
end

for i = 3, #KEYS, 2 do
  local key, beside, a = KEYS[i], KEYS[i + 1], 4 + (i - 3) * 2
  local member, claims, amount, shown = ARGV[a], ARGV[a + 2], ARGV[a + 3], typeOf(key, kind)
  if ARGV[a + 1] == '1' then
    local wrongType = kind == 'c' or redis.call('TYPE', beside).ok ~= 'hash'
    if wrongType then redis.call('DEL', beside) else redis.call('HDEL', beside, member) end
  end
  if kind == 'z' then
    mendRanking(key, beside, member, claims, amount, shown)
  else
    change[kind](key, beside, { member, amount }, 1, 2, shown)
  end
end
return 1
