-- Sets a limit of an upstream that all members take instead of their own, and reads all of them.
--
-- KEYS: a hash. `requests`, `input`, `output` and `tokens` have "count period burst version", the
-- period in us. A count of 0 is a limit that was removed.
-- ARGV: the dimension to change and its "count period burst", or two empty words. Then each dimension
-- that the member has read, and its words. Of two versions the later one stays.
-- Reply: each dimension followed by its words.
--
-- A version is the time of the change, or one more than the last version if the clock ran back. So a
-- member brings back what a server has lost, and never what was changed since.
-- The members read each second, so the limits stay for a month after the last of them.
local key, dimension, limit = KEYS[1], ARGV[1], ARGV[2]

local function version(words)
    return tonumber(string.match(words or '', '%d+$')) or 0
end

local function stored(name)
    return version(redis.call('HGET', key, name) or nil)
end

for i = 3, #ARGV - 1, 2 do
    if version(ARGV[i + 1]) > stored(ARGV[i]) then
        redis.call('HSET', key, ARGV[i], ARGV[i + 1])
    end
end
if dimension ~= '' then
    local words = string.format('%s %.0f', limit, math.max(clock, stored(dimension) + 1))
    redis.call('HSET', key, dimension, words)
end
redis.call('PEXPIRE', key, '2592000000')
return redis.call('HGETALL', key)
