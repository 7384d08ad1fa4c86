-- Exchanges the lease of a member on a shared account: a quota, or a budget without refill.
--
-- KEYS: a hash. `l` level, `t` time, `s` scale, `b` birth, `o` level at birth, `w` last sweep, `u`
-- time at which a member last lacked units, `d` distance of the time from the clock, `c` claim as "id
-- amount expiry", and for each member `m:<id>` as "granted spent expiry".
-- ARGV: id, capacity, rate, scale, ttl (us), base, spent, least, want, memory ('' for none), told (''
-- for none), own, calm. `told` is the level that the provider has reported. `own` are the units that
-- the member gave itself while the server was away. `calm` are the most parts that the account keeps
-- while no member lacks units.
-- Reply: granted, level, wait (us, -1 for never), is_new, and the step by which the clock ran back (us).
--
-- The level and the capacity are in parts. There are `scale` parts in a unit, and `rate` parts
-- arrive in a microsecond. All other amounts are in units. A member reports the sum of all that it
-- ever spent, and gets the sum of all that it was ever granted. So a lost or repeated exchange
-- loses nothing.
--
-- Numbers are doubles, which hold each integer up to 2^53. Why each result is exact:
-- * The capacity is at most 2^52 and the level is between -capacity and capacity.
-- * A product that is at most 2^53 is exact. A greater product is rounded but stays above 2^53. It
--   moves the level by at least 2^53, so the bounds of the level give the same result.
-- * The quotient of a number up to 2^53 by an integer is rounded by less than the distance to the
--   next multiple. So its floor and its ceiling are exact.
-- * Units are at most 2^51. A grant is a spent sum and at most 2^51 more, so it is at most 2^52.
--   The difference of a grant and a spent sum is then at most 2^53.
local MOST_PARTS, MOST_UNITS = 2 ^ 52, 2 ^ 51
local SECOND = 1000000
local REMEMBERED = 30 -- leases
local LACK = 200000 -- microseconds

local function bounded(n, low, high)
    return math.max(low, math.min(high, n))
end

-- Concatenation keeps 14 digits only. The sum removes the sign of a negative zero.
local function text(n)
    return string.format('%.0f', n + 0)
end

local function number(i, low, high)
    return bounded(tonumber(ARGV[i]), low, high)
end

local key, id = KEYS[1], ARGV[1]
local capacity = number(2, 0, MOST_PARTS)
local rate = number(3, 0, MOST_PARTS)
local scale = number(4, 1, MOST_PARTS)
local ttl = number(5, 0, MOST_UNITS)
local base = number(6, -MOST_UNITS, MOST_UNITS)
local spent = number(7, -MOST_UNITS, MOST_UNITS)
local least = number(8, 0, MOST_UNITS)
local want = number(9, 0, MOST_UNITS)
local memory, told = tonumber(ARGV[10]), tonumber(ARGV[11])
local own = number(12, 0, MOST_UNITS)
local calm = number(13, 0, capacity)
local leaves = ttl == 0
if leaves then
    want = 0
end
local mine = 'm:' .. id

-- Moves the level by units, within its bounds.
local function moved(level, units)
    return bounded(level + units * scale, -capacity, capacity)
end

-- Parts to units, rounded down.
local function units(parts)
    return math.floor(parts / scale)
end

local function parse_record(record)
    local granted, used, expiry = string.match(record, '^(%S+) (%S+) (%S+)$')
    return tonumber(granted), tonumber(used), tonumber(expiry)
end

local stored = redis.call('HMGET', key, 'l', 't', 's', 'b', 'o', 'w', 'c', mine, 'u', 'd')
local level, birth, origin = tonumber(stored[1]), tonumber(stored[4]), tonumber(stored[5])
local swept, claim, record = tonumber(stored[6]), stored[7], stored[8]
local lacked_at = tonumber(stored[9])
local before, distance = tonumber(stored[2] or 0), tonumber(stored[10] or 0)
local now, offset, stepped = steady(before, distance)

if memory then
    memory = moved(0, bounded(memory, -MOST_UNITS, MOST_UNITS))
end
if not level then
    -- The server lost the account or never had it. Members restore what they know.
    level, birth, swept = memory or capacity, now, now
    origin = level
else
    local old_scale = tonumber(stored[3])
    if old_scale ~= scale then
        level = moved(0, math.floor(level / old_scale))
        origin = moved(0, math.floor(origin / old_scale))
    end
    level = bounded(level, -capacity, capacity) -- the capacity may have changed
    level = bounded(level + (now - before) * rate, -capacity, capacity)
    if not lacked_at or now - lacked_at > LACK then
        level = math.min(level, calm)
    end
    if memory and not record and now - birth < ttl and memory < origin then
        -- This member knows of more use than the first one did. The units that the others took
        -- since the birth stay subtracted.
        level = bounded(level - (origin - memory), -capacity, capacity)
        origin = memory
    end
end

-- Units of members that are gone come back. The record stays for a while: a member that returns is
-- then charged from the right sum.
if now - swept >= ttl / 2 then
    swept = now
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do
        if string.sub(all[i], 1, 2) == 'm:' then
            local granted, used, expiry = parse_record(all[i + 1])
            if expiry + REMEMBERED * ttl <= now then
                level = moved(level, granted - used)
                redis.call('HDEL', key, all[i])
                if all[i] == mine then
                    record = false
                end
            elseif expiry <= now and granted > used then
                level = moved(level, granted - used)
                local rest = text(used) .. ' ' .. text(used) .. ' ' .. text(expiry)
                redis.call('HSET', key, all[i], rest)
                if all[i] == mine then
                    record = rest
                end
            end
        end
    end
end

local is_new = record and 0 or 1
local granted = base
if record then
    granted = parse_record(record)
end
if spent > granted then -- the member spent more than its lease, so the account owes the rest
    own = math.min(own, spent - granted)
    level = moved(level, granted - spent + own)
    -- The refill of the same time above the capacity is lost. So own units only empty the account.
    -- Otherwise the fleet would wait for its full refill after each long absence of the server.
    level = math.max(moved(level, -own), math.min(level, 0))
    granted = spent
end
local held = granted - spent
if told then -- the provider knows better
    level = math.min(level, moved(0, bounded(told, 0, MOST_UNITS)))
end

-- A claim keeps units for a large cost. Without it, members with small costs would take each unit
-- that arrives.
local reserved, claimant = 0, nil
if claim then
    local amount, expiry
    claimant, amount, expiry = string.match(claim, '^(.*) (%S+) (%S+)$')
    if tonumber(expiry) <= now then
        claim, claimant = false, nil
    elseif claimant ~= id then
        reserved = bounded(tonumber(amount), 0, units(capacity))
    end
end

local need = math.min(least, want)
if held > want then
    level = moved(level, held - want)
    held = want
elseif held < want then
    local free = math.max(0, units(level) - reserved)
    if held + free >= need then
        local given = math.min(want - held, free)
        level = moved(level, -given)
        held = held + given
    end
end
if held >= need then
    if claimant == id then
        claim = false
    end
elseif (not claim or claimant == id) and need - held <= units(capacity) then
    claim = id .. ' ' .. text(need - held) .. ' ' .. text(now + ttl)
elseif claimant == id then
    claim = false -- it can never be met
end

-- `missing` and `reserved` are at most the capacity, so their product is at most 2^53.
local missing = (least == 0 and want or need) - held
local wait = 0
if missing > 0 then
    wait = -1
    if rate > 0 and missing <= units(capacity) then
        local parts = math.min(2 ^ 53, (missing + reserved) * scale - level)
        wait = math.ceil(parts / rate)
    end
end

if missing > 0 then
    redis.call('HSET', key, 'u', text(now))
end
granted = spent + held
if leaves then
    redis.call('HDEL', key, mine)
else
    redis.call('HSET', key, mine, text(granted) .. ' ' .. text(spent) .. ' ' .. text(now + ttl))
end
if claim then
    redis.call('HSET', key, 'c', claim)
elseif stored[7] then
    redis.call('HDEL', key, 'c')
end
redis.call('HSET', key, 'l', text(level), 't', text(now), 's', text(scale), 'b', text(birth),
    'o', text(origin), 'w', text(swept), 'd', text(offset))

-- An account that is full again may be forgotten. A debt takes longer to refill.
local life = 3600 * SECOND
if rate > 0 then
    life = math.max(60 * SECOND, (capacity + math.max(0, -level)) / rate)
end
life = math.min(math.max(life, 10 * ttl), 30 * 86400 * SECOND)
redis.call('PEXPIRE', key, text(math.ceil(life / 1000)))
return { granted, units(level), wait, is_new, stepped }
