-- Replaces the vote of a member's breaker and counts the votes.
--
-- KEYS: a hash. `m:<id>` as "calls failures open expiry" for each member, `t` the last time, and
-- `d` the distance of the time from the clock.
-- ARGV: id, calls, failures, open (0 or 1), ttl (us, 0 to leave).
-- Reply: the members with calls, how many of these are open, and the ids of the first eight of the
-- latter.
--
-- The ttl is at most 2^51 us and `now` is below 2^52 until the year 2112, so their sum is exact.
local function text(n)
    return string.format('%.0f', n + 0)
end

local function number(i, most)
    return math.max(0, math.min(most, tonumber(ARGV[i])))
end

local NAMED = 8

local key, mine = KEYS[1], 'm:' .. ARGV[1]
local calls, failures, open = number(2, 2 ^ 53), number(3, 2 ^ 53), number(4, 1)
local ttl = number(5, 2 ^ 51)
local times = redis.call('HMGET', key, 't', 'd')
local now, offset = steady(tonumber(times[1] or 0), tonumber(times[2] or 0))

local voters, against, last, ids = 0, 0, now, {}
local function count(field, voter_calls, voter_open, expiry)
    last = math.max(last, expiry)
    if voter_calls > 0 then
        voters = voters + 1
        against = against + voter_open
        if voter_open > 0 then
            ids[#ids + 1] = string.sub(field, 3)
        end
    end
end

local all = redis.call('HGETALL', key)
for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'm:' and all[i] ~= mine then
        local vote = '^(%S+) %S+ (%S+) (%S+)$'
        local voter_calls, voter_open, expiry = string.match(all[i + 1], vote)
        if tonumber(expiry) <= now then
            redis.call('HDEL', key, all[i])
        else
            count(all[i], tonumber(voter_calls), tonumber(voter_open), tonumber(expiry))
        end
    end
end
if ttl > 0 then
    count(mine, calls, open, now + ttl)
    local vote = { text(calls), text(failures), text(open), text(now + ttl) }
    redis.call('HSET', key, mine, table.concat(vote, ' '))
else
    redis.call('HDEL', key, mine)
end
redis.call('HSET', key, 't', text(now), 'd', text(offset))
redis.call('PEXPIRE', key, text(math.ceil((last - now) / 1000) + 10000))
table.sort(ids)
local reply = { voters, against }
for i = 1, math.min(NAMED, #ids) do
    reply[#reply + 1] = ids[i]
end
return reply
