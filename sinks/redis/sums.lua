-- Makes a step of an audit of sums (audit.go). Any step but begin does nothing unless this audit is still running.
-- KEYS  the key with the running audit's name; the key with records as they were when the audit began; then
--       begin: the sink's key beside each key · page: records · mend: each key, and the sink's key beside it
-- ARGV  the step, the audit's name, the kind of the view's claims; then
--       begin: for each key the member ('' for a counter)
--       mend: for each key the member, '1' if the stored sum is damaged and must be removed first, and the claims and
--       the amount to add
-- Returns 0 if another audit is running, or if this one has expired. Otherwise begin returns the stored sums; page the
-- former contents of replaced records, and the records as they are now; mend and end 1.
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
    if type(found) == 'table' then found = '?' end -- the key has another type
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

-- mendRanking adds claims and an amount to the stored sum of a member, and sets the score.
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
