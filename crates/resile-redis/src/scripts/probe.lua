-- Leases the probe of a breaker to one member of the fleet, and shares the result of the probe.
--
-- KEYS: a string "time expiry closed passed distance id" of the last write: the lease of `id` ends
-- at `expiry`, nobody probes before `closed`, a probe passed at `passed` (-1 for none), and the
-- distance is that of the time from the clock. The id may be empty. After it may come a line with
-- the id of the member whose failed probe set `closed`.
-- ARGV: id, ttl (ms), op: 0 releases, 1 acquires or renews, 2 only looks, 3 says that a probe
-- failed and that nobody may probe for the ttl, 4 says that a probe passed. Then all may probe.
-- Reply: 1 if `id` holds the lease, the time for which it must not probe (ms), the time since a
-- probe passed (ms, -1 for none), the id of the member whose probe failed, until `closed`, and that of
-- another member that holds the lease.
--
-- The lease can be acquired a second before the probe. A member without calls does not renew it.
-- The ttl is at most 2^51 us and `now` is at most 2^52, so each sum is at most 2^53 and exact.
local AHEAD, KEPT = 1000000, 10000000

local function text(n)
    return string.format('%.0f', n + 0)
end

local key, id, op = KEYS[1], ARGV[1], ARGV[3]
local ttl = math.max(0, math.min(2 ^ 41, tonumber(ARGV[2]))) * 1000
local before, expiry, closed, passed, distance, holder, by = 0, 0, 0, -1, 0, '', ''
local stored = redis.call('GET', key)
if stored then
    local form = '^(%S+) (%S+) (%S+) (%S+) (%S+) ([^\n]*)\n?(.*)$'
    before, expiry, closed, passed, distance, holder, by = string.match(stored, form)
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

local is_free, is_known = holder == '' or holder == id, stored
if op == '4' then
    holder, closed, passed, by, is_known = '', 0, now, '', true
elseif op == '3' then
    if now + ttl > closed then
        closed, by = now + ttl, ttl > 0 and id or ''
    end
    passed, is_known = -1, true
    holder = is_free and '' or holder
elseif op == '1' and ttl > 0 then
    if is_free and passed < 0 and closed - now <= AHEAD then
        holder, expiry, is_known = id, math.max(now, closed) + ttl, true
    end
elseif op ~= '2' and holder == id then
    holder = ''
end

if is_known then
    local numbers = { text(now), text(expiry), text(closed), text(passed), text(offset), holder }
    local line = by ~= '' and '\n' .. by or ''
    local last = math.max(now, expiry, closed, passed < 0 and 0 or passed + KEPT)
    local life = text(math.ceil((last - now) / 1000) + 10000)
    redis.call('SET', key, table.concat(numbers, ' ') .. line, 'PX', life)
end
local held = holder == id
local rest, other = closed - now, not held and holder or ''
if other ~= '' then
    rest = math.max(rest, expiry - now)
end
local ago = passed < 0 and -1 or math.floor((now - passed) / 1000)
return { held and 1 or 0, math.ceil(math.max(0, rest) / 1000), ago, by, other }
