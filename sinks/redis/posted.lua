-- In a cluster, compares the sums or claims that are stored beside a key with the contributions of all entities to that
-- key (the posts). On request, it corrects the sums or claims, and what the key shows. All of this is in one slot, and
-- happens at one moment.
--
-- KEYS  the key; the hash of posts; the sink's key beside the key
-- ARGV  the kind; '1' to correct what is wrong
--
-- Returns three values for each wrong sum: its member ('' for a counter), the number of contributions to it, and 1 if a
-- sum is stored, else 0.
local key, posts, beside, kind, mend = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2] == '1'
local wholes = kind == 'c' -- the sink's key is one string, not a hash

local claims, sums, members = {}, {}, {}
local function meet(member)
  if not claims[member] then
    claims[member], sums[member], members[#members + 1] = 0, '0', member
  end
end
local contributed = redis.call('HGETALL', posts)
for i = 2, #contributed, 2 do
  local kept = string.sub(contributed[i], 21)
  local pairs = kept ~= '' and cmsgpack.unpack(kept) or {}
  for j = 1, #pairs, 2 do
    local amount = pairs[j + 1]
    local ranked = string.sub(amount, 1, 1) == '+'
    if ranked == (kind == 'z') then -- otherwise the view had another kind when this was contributed
      local member = wholes and '' or pairs[j]
      meet(member)
      claims[member] = claims[member] + 1
      sums[member] = add(sums[member], ranked and string.sub(amount, 2) or amount)
    end
  end
end

local remembered = {}
local found = redis.call('TYPE', beside).ok
if found ~= 'none' and found ~= (wholes and 'string' or 'hash') then
  meet('')
  remembered[''] = '?'
  if mend then redis.call('DEL', beside) end
elseif wholes then
  meet('')
  remembered[''] = redis.call('GET', beside) or nil
else
  local fields = redis.call('HGETALL', beside)
  for i = 1, #fields, 2 do
    meet(fields[i])
    remembered[fields[i]] = fields[i + 1]
  end
end

local shown = typeOf(key, kind)
local wrong = {}
for _, member in ipairs(members) do
  local want = nil
  if kind == 'z' then
    if claims[member] > 0 then want = string.format('%.0f ', claims[member]) .. sums[member] end
  elseif sums[member] ~= '0' then
    want = sums[member]
  end
  if want ~= remembered[member] then
    wrong[#wrong + 1] = member
    wrong[#wrong + 1] = claims[member]
    wrong[#wrong + 1] = remembered[member] and 1 or 0
    if mend and wholes then
      if want then redis.call('SET', beside, want) else redis.call('DEL', beside) end
    elseif mend then
      keep(beside, member, want)
      if kind == 'm' and shown then redis.call(want and 'SADD' or 'SREM', key, member) end
      if kind == 'z' and shown and not want then redis.call('ZREM', key, member) end
    end
  end
end
if mend and kind == 'z' then
  for i = 1, #wrong, 3 do
    if wrong[i + 1] > 0 then change.z(key, beside, { wrong[i], '=' }, 1, 2, shown) end
  end
elseif mend and kind ~= 'm' then -- the key shows what is stored beside it
  change[kind](key, beside, {}, 1, 0, shown)
end
return wrong
