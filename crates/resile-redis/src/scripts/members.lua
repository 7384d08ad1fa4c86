-- Renews the presence of a member, or ends it, and counts the members.
--
-- KEYS: a sorted set. `m:<id>` has the expiry of a member as its score, `t` the last time, and `d`
-- the distance of the time from the clock.
-- ARGV: id, ttl (us, 0 to leave), channel.
-- Reply: the members alive, this one included, and the step by which the clock ran back (us). A
-- member that joins is published to the channel as "joined id", one that leaves as "left alive id", and one that no longer counts
-- because it is silent as "silent id": the first eight of those that are found at once.
--
-- The ttl is at most 2^51 us and `now` is below 2^52 until the year 2112, so their sum is exact.
local function text(n)
    return string.format('%.0f', n + 0)
end

local key, mine = KEYS[1], 'm:' .. ARGV[1]
local ttl = math.max(0, math.min(2 ^ 51, tonumber(ARGV[2])))
local before = tonumber(redis.call('ZSCORE', key, 't') or 0)
local distance = tonumber(redis.call('ZSCORE', key, 'd') or 0)
local now, offset, stepped = steady(before, distance)

local silent = {}
local lowest = redis.call('ZREVRANGE', key, -10, -1, 'WITHSCORES') -- eight, `t` and `d`
for i = 1, #lowest, 2 do
    local is_member = string.sub(lowest[i], 1, 2) == 'm:' and lowest[i] ~= mine
    if is_member and tonumber(lowest[i + 1]) <= now then
        silent[#silent + 1] = string.sub(lowest[i], 3)
    end
end
redis.call('ZREMRANGEBYSCORE', key, '-inf', text(now)) -- also `t` and `d`, see below
local has_joined, has_left = 0, 0
if ttl > 0 then
    has_joined = redis.call('ZADD', key, text(now + ttl), mine)
else
    has_left = redis.call('ZREM', key, mine)
end
local alive = redis.call('ZCARD', key)
redis.call('ZADD', key, text(now), 't')
if offset > 0 then
    redis.call('ZADD', key, text(offset), 'd')
end

local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
redis.call('PEXPIRE', key, text(math.ceil((tonumber(last) - now) / 1000) + 10000))
if has_joined == 1 then
    redis.call('PUBLISH', ARGV[3], 'joined ' .. ARGV[1])
end
if has_left == 1 then
    redis.call('PUBLISH', ARGV[3], 'left ' .. text(alive) .. ' ' .. ARGV[1])
end
for i = 1, #silent do
    redis.call('PUBLISH', ARGV[3], 'silent ' .. silent[i])
end
return { alive, stepped }
