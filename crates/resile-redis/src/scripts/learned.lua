-- Adds what a member has learned of the limits to what the fleet knows, and returns the sum.
--
-- KEYS: a hash. `t` time, `d` distance of the time from the clock, and for each limit "base based cap
-- capped used top told said since words by": the lowest limit that a member was built with and the time at which
-- a member last had it, the lowest limit that the provider reports and its time, the limit that all
-- use and the largest one that was allowed, the time of the last report, the share of the
-- base of which operators were told last, the time since which a lower one is news, or 0, the words
-- of the base, and the id of the member that last had it.
-- ARGV: the id of the member, and for each limit its name (with its value if it was set at run time), the own limit of the
-- member, its words, the change that its calls have taught, the limit that the provider reports to it,
-- and the limit that all used by its last answer ('' for none of these two). The latter counts if the
-- key knows none, as after a loss of data. The words are its count, its period in us and its burst.
-- Reply: for each limit the words of the base, the limit that all use, 1 if this member has to tell
-- operators of it, and the id of the member that last had the base: a first share is news below 0.9, a later one below 0.8 of the one before, and the
-- whole limit again from 0.97 on. Otherwise 0. A lower share is told when all members have reported since,
-- so that what they bring one after another is told once.
--
-- Limits are in units a second, as decimal texts. They need not be exact, so doubles are.
local FRESH = 3000000 -- us: a member reports each second
local MEMORY = 60000000

local function text(n)
    return string.format('%.17g', n)
end

local function bounded(n, low, high)
    if n ~= n then
        return low
    end
    return math.max(low, math.min(high, n))
end

local key, id = KEYS[1], ARGV[1]
local times = redis.call('HMGET', key, 't', 'd')
local now, offset = steady(tonumber(times[1] or 0), tonumber(times[2] or 0))
local replies = {}

for i = 2, #ARGV - 5, 6 do -- a whole report has six
    local name = ARGV[i]
    local own = bounded(tonumber(ARGV[i + 1]), 1e-12, 1e18)
    local words = ARGV[i + 2]
    local change = bounded(tonumber(ARGV[i + 3]), -1e18, 1e18)
    local reported, remembered = tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
    local stored = redis.call('HGET', key, name)
    local n = {}
    for word in string.gmatch(stored or '', '%S+') do
        n[#n + 1] = tonumber(word)
    end
    local base_words, by = string.match(stored or '', '(%S+ %S+ %S+) (%S+)$')
    local base, based, cap, capped, used, top, told = n[1], n[2], n[3], n[4], n[5], n[6], n[7]
    local said, since = n[8], n[9]
    if not told or now - told > MEMORY then
        base, based, cap, capped, used, top = own, now, own, 0, nil, own
        base_words, by, said, since = words, id, 1, 0
    end
    -- One of two equal limits stays, so that all members count in the same parts.
    if own < base * 0.999999 or now - based > FRESH then
        base, based, base_words, by = own, now, words, id
    elseif own <= base * 1.000001 then
        based, by = now, id
    end
    if reported and (reported <= cap * 1.000001 or now - capped > FRESH) then
        cap, capped = bounded(reported, 1e-12, 1e18), now
    end
    local most = base
    if now - capped <= FRESH then
        most = math.min(base, cap)
    end
    if not used then
        used = remembered or most
    elseif most > top and used >= 0.9 * top then
        used = used / top * most -- what was refused before belongs to the old limit
    end
    used = bounded(used + change, most / 1024, most)
    local share, news = used / base, '0'
    local falls = share < (said < 1 and 0.8 * said or 0.9)
    if not falls then
        since = 0
    elseif since == 0 then
        since = now
    end
    if falls and now - since > FRESH then
        said, since, news = share, 0, '1'
    elseif said < 1 and share >= 0.97 then
        said, news = 1, '1'
    end
    local numbers = { base, based, cap, capped, used, most, now, said, since }
    for j = 1, #numbers do
        numbers[j] = text(numbers[j])
    end
    redis.call('HSET', key, name, table.concat(numbers, ' ') .. ' ' .. base_words .. ' ' .. by)
    replies[#replies + 1] = base_words
    replies[#replies + 1] = text(used)
    replies[#replies + 1] = news
    replies[#replies + 1] = by
end

redis.call('HSET', key, 't', text(now), 'd', text(offset))
redis.call('PEXPIRE', key, '120000')
return replies
