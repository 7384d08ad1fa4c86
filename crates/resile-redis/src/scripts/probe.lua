-- Leases the probe of a breaker to one member of the fleet, and shares the result of the probe.
--
-- KEYS: a string "time expiry closed passed distance id" of the last write: the lease of `id` ends
-- at `expiry`, nobody probes before `closed`, a probe passed at `passed` (-1 for none), and the
-- distance is that of the time from the clock. The id may be empty. After it may come a line with
-- the id of the member whose failed probe set `closed`, which may be empty, and one with "asked id"
-- for each member that waits, in the order of their turns.
-- ARGV: id, ttl (ms), op: 0 releases, 1 acquires or renews, 2 only looks, 3 says that a probe
-- failed and that nobody may probe for the ttl, 4 says that a probe passed. Then all may probe.
-- Reply: 1 if `id` holds the lease, the time for which it must not probe (ms), the time since a
-- probe passed (ms, -1 for none), the time until `closed` (ms), the id of the member whose probe failed, until
-- `closed`, and that of another member that holds the lease or has its turn before `id`.
--
-- A member that asks in vain waits in a queue, and one that had the lease is behind all that wait. So
-- with m members each has its turn after m - 1 others, also if one of them fails each time. A member
-- that asks no more loses its turn. All ask twice a second, but not in a pause. So the first one has
-- 0.75 s to ask again from the time on at which the lease can be acquired.
--
-- The lease can be acquired a second before the probe. A member without calls does not renew it.
-- The ttl is at most 2^51 us and `now` is at most 2^52, so each sum is at most 2^53 and exact.
local AHEAD, KEPT = 1000000, 10000000
local GRACE, PRESENT = 750000, 1500000

local function text(n)
    return string.format('%.0f', n + 0)
end

local key, id, op = KEYS[1], ARGV[1], ARGV[3]
local ttl = math.max(0, math.min(2 ^ 41, tonumber(ARGV[2]))) * 1000
local before, expiry, closed, passed, distance, holder, by = 0, 0, 0, -1, 0, '', ''
local waiting, queue, place, turn = '', {}, 1, ''
local stored = redis.call('GET', key)
if stored then
    local form = '^(%S+) (%S+) (%S+) (%S+) (%S+) ([^\n]*)\n?([^\n]*)\n?(.*)$'
    before, expiry, closed, passed, distance, holder, by, waiting = string.match(stored, form)
    before, expiry, closed = tonumber(before), tonumber(expiry), tonumber(closed)
    passed, distance = tonumber(passed), tonumber(distance)
end
local now, offset = steady(before, distance)
if expiry <= now then
    holder = ''
end
if closed <= now then
    by = ''
end
if passed + KEPT <= now then
    passed = -1
end

for asked, waiter in string.gmatch(waiting, '(%S+) ([^\n]*)') do
    queue[#queue + 1] = { asked = tonumber(asked), id = waiter }
end
while queue[place] and queue[place].id ~= id do
    place = place + 1
end
local opens = closed - AHEAD
if op == '1' and ttl > 0 and passed < 0 then
    for i = 1, place - 1 do
        if turn == '' and (now < opens + GRACE or now - queue[i].asked < PRESENT) then
            turn = queue[i].id
        end
    end
end

local is_free, is_known = holder == '' or holder == id, stored
if op == '4' then
    holder, closed, passed, by, is_known = '', 0, now, '', true
    queue = {}
elseif op == '3' then
    if now + ttl > closed then
        closed, by = now + ttl, ttl > 0 and id or ''
    end
    passed, is_known = -1, true
    holder = is_free and '' or holder
    table.remove(queue, place)
elseif op == '1' and ttl > 0 then
    if is_free and passed < 0 and now >= opens and (holder == id or turn == '') then
        if holder ~= id then
            for _ = 1, math.min(place, #queue) do
                table.remove(queue, 1)
            end
        end
        holder, expiry, is_known = id, math.max(now, closed) + ttl, true
    elseif passed < 0 and holder ~= id then
        queue[place] = { asked = now, id = id }
    end
elseif op ~= '2' then
    holder = holder ~= id and holder or ''
    table.remove(queue, place)
end

if is_known then
    local numbers = { text(now), text(expiry), text(closed), text(passed), text(offset), holder }
    local line = (by ~= '' or #queue > 0) and '\n' .. by or ''
    for i = 1, #queue do
        line = line .. '\n' .. text(queue[i].asked) .. ' ' .. queue[i].id
    end
    local last = math.max(now, expiry, closed, passed < 0 and 0 or passed + KEPT)
    local life = text(math.ceil((last - now) / 1000) + 10000)
    redis.call('SET', key, table.concat(numbers, ' ') .. line, 'PX', life)
end
local held = holder == id
local rest, other = closed - now, not held and holder or ''
if other ~= '' then
    rest = math.max(rest, expiry - now)
elseif not held and turn ~= '' then
    rest, other = math.max(rest, AHEAD), turn
end
local ago = passed < 0 and -1 or math.floor((now - passed) / 1000)
local pause = math.ceil(math.max(0, closed - now) / 1000)
return { held and 1 or 0, math.ceil(math.max(0, rest) / 1000), ago, pause, by, other }
