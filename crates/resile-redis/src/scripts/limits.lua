-- Sets a limit of an upstream that all members take instead of their own, or reads all of them.
--
-- KEYS: a hash. `requests`, `input`, `output` and `tokens` have "count period burst", the period in us.
-- ARGV: nothing to read, or a dimension and its limit. An empty limit removes it.
-- Reply: each dimension followed by its limit.
--
-- The members read each second, so the limits stay for a month after the last of them.
local key, dimension, limit = KEYS[1], ARGV[1], ARGV[2]
if dimension and limit == '' then
    redis.call('HDEL', key, dimension)
elseif dimension then
    redis.call('HSET', key, dimension, limit)
end
redis.call('PEXPIRE', key, '2592000000')
return redis.call('HGETALL', key)
