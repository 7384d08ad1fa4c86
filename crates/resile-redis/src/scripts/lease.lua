-- Exchanges the lease of a member on a shared account: a quota, or a budget without refill.
--
-- KEYS: a hash. `l` level, `h` units that the members hold, `t` time, `s` scale, `b` birth, `o` level
-- at birth, `e` end of a pause in which nothing arrives, `w` last sweep, `u` time up to which a member that lacks units is expected, `v` highest
-- tag, `d` distance of the time from the clock, `q` return of the members after an outage as "since
-- fleet back each till", `r` packed list of the members that lack units, each as id, lack, turn,
-- tag, step, till, and for each member `m:<id>` as "granted spent expiry lack turn tag step until".
-- ARGV: id, capacity, rate, scale, ttl (us), base, spent, least, want, memory ('' for none), told
-- ('' for none), own, calm, weight (1 to 100), away, floor, pause (us). `told` is the level that the provider has
-- reported. `own` are the units that the member gave itself while the server was away. `calm` are
-- the most parts that an account keeps together with the units that the members hold: always
-- without a refill, and while no member lacks units with one. `away` is 0, or the number of members
-- by which this one has divided the limit since its last exchange. `floor` are the units that a
-- member keeps of its own deposits on an account without a refill, even if the others hold all.
-- With `told`, `pause` is the rest of the hold after a refusal. Nothing arrives in it, and what the other
-- members hold is of the told level: so the refill from its end on is all that the fleet has then.
-- Reply: granted, level, wait (us, -1 for never), is_new, the step by which the clock ran back (us),
-- and the units that are missing from the calm account and the members.
--
-- The level and the capacity are in parts. There are `scale` parts in a unit, and `rate` parts
-- arrive in a microsecond. All other amounts are in units. A member reports the sum of all that it
-- ever spent, and gets the sum of all that it was ever granted. So a lost or repeated exchange
-- loses nothing.
--
-- Members that lack units share by start-time fair queueing. A member takes its units in turns,
-- each as large as the cost of its first call, and a turn adds a step to its tag. The turn with the
-- lowest tag is the next one. So all that lack units get equal amounts, whenever they ask. A member
-- that begins to lack goes behind the lowest tag of the others: it gets nothing for the time
-- before.
--
-- The first member that was away and comes back begins a return. The account has saved units during
-- the outage, and the members have used some of them. So the part of each member that has not
-- reported yet is withheld (`each`, in parts): of what was saved, and of what arrives. What arrives at a
-- full account is lost, and those members have used it, so it is withheld no more. When a member reports, the
-- account pays at most this part for the own units of the member. A return lasts for one lease.
--
-- Numbers are doubles, which hold each integer up to 2^53. Why each result is exact:
-- * The capacity is at most 2^52 and the level is between -capacity and capacity.
-- * A product that is at most 2^53 is exact. A greater product is rounded but stays above 2^53. It
--   moves the level by at least 2^53, so the bounds of the level give the same result.
-- * The quotient of a number up to 2^53 by an integer is rounded by less than the distance to the
--   next multiple. So its floor and its ceiling are exact.
-- * Units are at most 2^51. A grant is a spent sum and at most 2^51 more, so it is at most 2^52.
--   The difference of a grant and a spent sum is then at most 2^53.
-- * Tags and steps are at most 2^52. Other sums and products are cut to 2^53 in the same way.
local MOST_PARTS, MOST_UNITS, MOST = 2 ^ 52, 2 ^ 51, 2 ^ 53
local SECOND = 1000000
local REMEMBERED = 30 -- leases

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
local weight, away = number(14, 1, 100), number(15, 0, 2 ^ 20)
local floor, pause = number(16, 0, MOST_UNITS), number(17, 0, MOST_UNITS)
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
    local form = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$'
    local granted, used, expiry, lack, turn, tag, step, till = string.match(record, form)
    return {
        granted = tonumber(granted), spent = tonumber(used), expiry = tonumber(expiry),
        lack = tonumber(lack), turn = tonumber(turn), tag = tonumber(tag),
        step = tonumber(step), till = tonumber(till),
    }
end

local function store_record(field, r)
    local numbers = { r.granted, r.spent, r.expiry, r.lack, r.turn, r.tag, r.step, r.till }
    for i = 1, #numbers do
        numbers[i] = text(numbers[i])
    end
    redis.call('HSET', key, field, table.concat(numbers, ' '))
end

local stored =
    redis.call('HMGET', key, 'l', 't', 's', 'b', 'o', 'w', 'u', 'v', 'd', mine, 'q', 'r', 'h', 'e')
local level, birth, origin = tonumber(stored[1]), tonumber(stored[4]), tonumber(stored[5])
local swept, scarce_until = tonumber(stored[6]), tonumber(stored[7] or 0)
local top, before = tonumber(stored[8] or 0), tonumber(stored[2] or 0)
local record = stored[10] and parse_record(stored[10])
local all_held = tonumber(stored[13] or 0)
local resumes = level and tonumber(stored[14] or 0) or 0
local now, offset, stepped = steady(before, tonumber(stored[9] or 0))
local is_scarce = now <= scarce_until
local saved -- during the time without an exchange
local arrived, lost = 0, 0 -- since the last exchange, and the part of it that had no room

if memory then
    memory = moved(0, bounded(memory, -MOST_UNITS, MOST_UNITS))
end
if not level then
    -- The server lost the account or never had it. Members restore what they know.
    level, birth, swept = memory or capacity, now, now
    origin, saved = level, math.max(0, level)
else
    local old_scale = tonumber(stored[3])
    if old_scale ~= scale then
        level = moved(0, math.floor(level / old_scale))
        origin = moved(0, math.floor(origin / old_scale))
    end
    level = bounded(level, -capacity, capacity) -- the capacity may have changed
    local had = level
    local passed = math.max(0, now - math.max(before, resumes))
    level = bounded(level + passed * rate, -capacity, capacity)
    arrived = math.min(MOST, passed * rate)
    lost = math.max(0, arrived - (capacity - had))
    if now - before >= math.floor(ttl / 10) then
        saved = level - had
    end
    if memory and not record and now - birth < ttl and memory < origin then
        -- This member knows of more use than the first one did. The units that the others took
        -- since the birth stay subtracted.
        level = bounded(level - (origin - memory), -capacity, capacity)
        origin = memory
    end
end

-- The members that lack units. Unpacking is much faster than reading all records.
local queue, is_new_queue = nil, false
local function load_queue()
    queue = queue or (stored[12] and cmsgpack.unpack(stored[12]) or {})
end

local function append(name, r)
    local n = #queue
    queue[n + 1], queue[n + 2], queue[n + 3] = name, r.lack, r.turn
    queue[n + 4], queue[n + 5], queue[n + 6] = r.tag, r.step, r.till
end

-- A member that is gone may have spent its lease after its last report. So what arrives within a ttl counts
-- as spent, and only the rest comes back. The record stays for a while: a member that returns is then
-- charged from the right sum, and gets back what it has not spent. Tags become small again.
if not leaves and now - swept >= ttl / 2 then
    swept = now
    local lost = units(math.min(MOST, ttl * rate))
    local lowest, records = top, {}
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do
        if string.sub(all[i], 1, 2) == 'm:' then
            records[all[i]] = parse_record(all[i + 1])
        end
    end
    for _, r in pairs(records) do
        if r.lack > 0 and r.till >= now then
            lowest = math.min(lowest, r.tag)
        end
    end
    top = top - lowest
    for field, r in pairs(records) do
        local back = r.expiry <= now and r.granted - r.spent - lost or 0
        if back > 0 then
            level = moved(level, back)
            r.granted = r.granted - back
        end
        if r.expiry + REMEMBERED * ttl <= now then
            redis.call('HDEL', key, field)
            records[field] = nil
        elseif back > 0 or lowest > 0 then
            r.tag = math.max(0, r.tag - lowest)
            store_record(field, r)
        end
    end
    record = records[mine]
    queue, is_new_queue = {}, true
    all_held = 0
    for field, r in pairs(records) do
        if r.expiry > now then
            all_held = math.min(MOST, all_held + (r.granted - r.spent))
        end
        if r.lack > 0 then
            append(string.sub(field, 3), r)
        end
    end
end

-- The units that the members hold are of the burst too.
local function calmed(held_units)
    if is_scarce and rate > 0 then
        return level
    end
    return math.min(level, math.max(0, calm - held_units * scale))
end
local uncalmed = level
level = calmed(all_held) -- what was held until now left no room for a refill

local since, fleet, back, each, till_back
if stored[11] then
    local form = '^(%S+) (%S+) (%S+) (%S+) (%S+)$'
    local numbers = { string.match(stored[11], form) }
    if tonumber(numbers[5]) > now then
        since, fleet, back = tonumber(numbers[1]), tonumber(numbers[2]), tonumber(numbers[3])
        till_back = tonumber(numbers[5])
        each = math.min(MOST_PARTS, tonumber(numbers[4]) + math.ceil(arrived / fleet))
    end
end
if not since and away > 1 and saved then
    since, fleet, back, till_back = now, away, 0, now + ttl
    each, lost = math.floor(saved / fleet), 0
end
local withheld, charged = 0, MOST
if since then
    if back < fleet then
        lost = math.min(MOST, lost + (uncalmed - level))
        each = math.max(0, each - math.floor(lost / (fleet - back)))
    end
    if record and record.expiry < since + ttl or not record and away > 0 then
        back, charged = math.min(fleet, back + 1), each
    end
    withheld = each * (fleet - back)
end

local is_new = record and 0 or 1
local granted = base
if record then
    granted = record.granted
end
if spent > granted then -- the member spent more than its lease, so the account owes the rest
    own = math.min(own, spent - granted)
    level = moved(level, granted - spent + own)
    -- The refill of the same time above the capacity is lost. So own units only empty the account.
    -- Otherwise the fleet would wait for its full refill after each long absence of the server.
    level = math.max(level - math.min(charged, own * scale), math.min(level, 0))
    granted = spent
end
local held = granted - spent
local mine_before = record and record.granted - record.spent or 0
if record and record.expiry <= swept then -- a sweep has counted the lease as spent
    mine_before = 0
    if rate > 0 then
        level = moved(level, held)
        held = 0
    end
end
if rate == 0 then -- deposits above what all may have are lost
    local others = math.max(0, all_held - mine_before)
    held = math.min(held, math.max(floor, mine_before, units(calm) - others))
    level = calmed(bounded(others, 0, MOST - held) + held)
end
if told then -- the provider knows better
    local others = pause > 0 and rate > 0 and math.max(0, all_held - mine_before) or 0
    told = bounded(told, 0, MOST_UNITS) - math.min(others, MOST_UNITS)
    level = math.min(level, moved(0, told))
    resumes = math.max(resumes, now + pause)
end

-- The places of the other members that lack units and are soon expected. The first of them has the
-- lowest tag.
local rivals, first = {}, nil
if is_scarce then
    load_queue()
    for at = 1, #queue, 6 do
        if queue[at] ~= id and queue[at + 5] >= now then
            rivals[#rivals + 1] = at
            local is_first = not first or queue[at + 3] < queue[first + 3]
            local is_equal = first and queue[at + 3] == queue[first + 3]
            if is_first or is_equal and queue[at + 2] > queue[first + 2] then
                first = at
            end
        end
    end
end

local need = math.min(least, want)
local turn = math.max(1, need)
local step = math.ceil(math.min(turn, 2 ^ 42) * 1000 / weight)
local tag = record and record.tag or 0
local waited = record and record.lack > 0 and record.till >= now
if held < want and not waited then
    tag = math.min(MOST_PARTS, math.max(tag, first and queue[first + 3] + 1 or top))
end

-- Returns the units that the others get in turns before a tag. Above `most` the sum does not
-- matter.
local function ahead_of(start, most)
    local sum = 0
    for i = 1, #rivals do
        local at = rivals[i]
        local other = queue[at + 3]
        if other < start then
            local turns = math.ceil((start - other) / queue[at + 4])
            sum = sum + math.min(queue[at + 1], turns * queue[at + 2])
            if sum > most then
                return sum
            end
        end
    end
    return sum
end

-- Returns the units of this member after some turns. The first turn completes what it needs.
local lack = want - held
local function after(turns)
    return math.min(lack, (need > held and need - held or turn) + (turns - 1) * turn)
end

local room = units(capacity)
if held > want then
    level = moved(level, held - want)
    tag = math.max(0, tag - math.ceil((held - want) / turn) * step)
    held = want
elseif held < want then
    local pool = math.max(0, units(level - withheld))
    -- The most turns that fit beside the turns of the others before them.
    local turns, most = 0, math.ceil(math.min(lack, pool) / turn) + 1
    while turns < most do
        local middle = turns + math.ceil((most - turns) / 2)
        local start = math.min(MOST, tag + (middle - 1) * step)
        if after(middle) <= pool and ahead_of(start, pool) + after(middle) <= pool then
            turns = middle
        else
            most = middle - 1
        end
    end
    local given = turns > 0 and after(turns) or 0
    -- An account that is nearly full would lose its refill. So who asks gets what the first of the
    -- others does not need.
    if first then
        local spare = pool - math.max(queue[first + 2], room - math.floor(room / 4))
        given = math.max(given, math.min(lack, spare))
    end
    if given > 0 and held + given >= need then
        level = moved(level, -given)
        held = held + given
        tag = math.min(MOST_PARTS, tag + math.ceil(given / turn) * step)
    end
end
top = math.max(top, tag)
all_held = bounded(all_held - mine_before, 0, MOST - held) + held
level = calmed(all_held) -- calls may have given units back

-- `missing` and `reserved` are at most the capacity, so their product is at most 2^53.
local missing = (least == 0 and want or need) - held
local wait = 0
if missing > 0 then
    wait = -1
    if rate > 0 and missing <= room then
        local reserved = math.min(room, ahead_of(tag, room))
        local parts = math.min(MOST, (missing + reserved) * scale - level)
        wait = math.max(0, math.ceil(parts / rate))
        if wait > 0 then
            wait = math.min(MOST, wait + math.max(0, resumes - now))
        end
    end
end

granted, lack = spent + held, want - held
local half = math.floor(ttl / 2)
local till = now + (wait < 0 and half or math.min(wait, half)) + math.floor(3 * ttl / 20)
if lack > 0 then
    scarce_until = math.max(scarce_until, till)
end
local next_record = {
    granted = granted, spent = spent, expiry = now + ttl,
    lack = lack, turn = turn, tag = tag, step = step, till = till,
}
if leaves then
    redis.call('HDEL', key, mine)
else
    store_record(mine, next_record)
end
if lack > 0 or record and record.lack > 0 then
    load_queue()
    is_new_queue = true
    for at = 1, #queue, 6 do
        if queue[at] == id then
            local last = #queue - 5
            for i = 0, 5 do
                queue[at + i] = queue[last + i]
            end
            for i = 5, 0, -1 do
                queue[last + i] = nil
            end
            break
        end
    end
    if lack > 0 and not leaves then
        append(id, next_record)
    end
end
if is_new_queue and #queue > 0 then
    redis.call('HSET', key, 'r', cmsgpack.pack(queue))
elseif is_new_queue then
    redis.call('HDEL', key, 'r')
end
redis.call('HSET', key, 'l', text(level), 't', text(now), 's', text(scale), 'b', text(birth),
    'o', text(origin), 'e', text(resumes), 'w', text(swept), 'd', text(offset), 'u', text(scarce_until), 'v', text(top),
    'h', text(all_held))

if since then
    local numbers = { text(since), text(fleet), text(back), text(each), text(till_back) }
    redis.call('HSET', key, 'q', table.concat(numbers, ' '))
elseif stored[11] then
    redis.call('HDEL', key, 'q')
end

-- An account that is full again may be forgotten. A debt takes longer to refill.
local life = 3600 * SECOND
if rate > 0 then
    life = (capacity + math.max(0, -level)) / rate + math.max(0, resumes - now)
    life = math.max(60 * SECOND, life)
end
life = math.min(math.max(life, 10 * ttl), 30 * 86400 * SECOND)
redis.call('PEXPIRE', key, text(math.ceil(life / 1000)))
local missing_units = math.max(0, units(calm - level - all_held * scale))
return { granted, units(level), wait, is_new, stepped, missing_units }
