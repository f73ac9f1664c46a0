-- Replaces an entity's record, if it is still the one that was read.
-- KEYS  the record
-- ARGV  the nonce of the record that was read ('' if there was none), the new record
-- Returns 1 if it replaced the record, else 0.
if redis.call('GETRANGE', KEYS[1], 0, 7) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
