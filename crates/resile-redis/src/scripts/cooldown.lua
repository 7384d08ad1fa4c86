-- Merges the hold of a cooldown into the shared one. A shared hold never gets shorter.
--
-- KEYS: a hash. `u` end of the hold, `s` its start, `h` longest hint, `t` time of the last write,
-- `d` distance of the time from the clock, `i` id of the member that set the end.
-- ARGV: remaining, elapsed, hint (all us), channel, id. A remaining time of 0 only reads.
-- Reply: remaining, elapsed, hint (all us), grew, and the id of the member that set the end. A grown hold is published to the channel as
-- "id remaining elapsed hint".
--
-- Durations are at most 2^51 us (71 years), and `now` is below 2^52 until the year 2112. So the end
-- is below 2^52 + 2^51 and the start is above -2^51. Each sum here is at most 2^53 and exact.
local MOST = 2 ^ 51

local function text(n)
    return string.format('%.0f', n + 0)
end

local function number(i)
    return math.max(0, math.min(MOST, tonumber(ARGV[i])))
end

-- After the hold, calls are released over a part of its length.
local function release(since, till)
    return math.max(250000, math.floor((till - since) / 4))
end

local key = KEYS[1]
local remaining, elapsed, hint = number(1), number(2), number(3)
local stored = redis.call('HMGET', key, 'u', 's', 'h', 't', 'd', 'i')
local till, since, longest = tonumber(stored[1]), tonumber(stored[2]), tonumber(stored[3])
local before, distance = tonumber(stored[4] or 0), tonumber(stored[5] or 0)
local by = stored[6] or ''
local now, offset, stepped = steady(before, distance)
local runs = till and now < till + release(since, till)
if stepped > 0 then
    redis.call('HSET', key, 'd', text(offset)) -- also if this only reads
end

if remaining == 0 then
    if not runs then
        return { 0, 0, 0, 0, '' }
    end
    return { math.max(0, till - now), now - since, longest, 0, by }
end

local grew = 0
if runs then
    since = math.min(since, now - elapsed)
    longest = math.max(longest, hint)
else
    -- The old hold ended before now, so the new end is later.
    since, longest, till = now - elapsed, hint, now
end
if now + remaining > till then
    till, grew, by = now + remaining, 1, ARGV[5]
end
remaining, elapsed = till - now, now - since

redis.call('HSET', key, 'u', text(till), 's', text(since), 'h', text(longest), 't', text(now),
    'i', by)
local life = remaining + release(since, till) + 10000000
redis.call('PEXPIRE', key, text(math.ceil(life / 1000)))
if grew == 1 then
    local message = { ARGV[5], text(remaining), text(elapsed), text(longest) }
    redis.call('PUBLISH', ARGV[4], table.concat(message, ' '))
end
return { remaining, elapsed, longest, grew, by }
