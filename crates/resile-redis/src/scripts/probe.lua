-- Leases the single probe of a breaker to one member of the fleet.
--
-- KEYS: a string "time expiry distance id" of the last write, with the distance of the time from the
-- clock. No other member can renew or release the lease.
-- ARGV: id, ttl (ms), op (1 acquires or renews, 0 releases).
-- Reply: 1 if `id` holds the lease, the rest of the lease of its holder (ms).
--
-- The expiry is part of the text, so a clock that runs backwards never extends a lease. The ttl is at most 2^51 us and `now` is below 2^52 until the year 2112, so their sum is exact.
local function text(n)
    return string.format('%.0f', n + 0)
end

local key, id = KEYS[1], ARGV[1]
local ttl = math.max(0, math.min(2 ^ 41, tonumber(ARGV[2]))) * 1000
local holder, expiry, before, distance
local stored = redis.call('GET', key)
if stored then
    before, expiry, distance, holder = string.match(stored, '^(%S+) (%S+) (%S+) (.*)$')
    expiry = tonumber(expiry)
end
local now, offset, stepped = steady(tonumber(before or 0), tonumber(distance or 0))
if holder and expiry <= now then
    holder = nil
end

local function store()
    local life = text(math.ceil((expiry - now) / 1000) + 10000)
    local lease = text(now) .. ' ' .. text(expiry) .. ' ' .. text(offset) .. ' ' .. holder
    redis.call('SET', key, lease, 'PX', life)
end

if ARGV[3] == '0' or ttl == 0 then
    if holder == id then
        redis.call('DEL', key)
        holder = nil
    end
elseif not holder or holder == id then
    holder, expiry = id, now + ttl
    store()
elseif stepped > 0 then
    store() -- the lease of another member goes on to its end
end
if not holder then
    return { 0, 0 }
end
return { holder == id and 1 or 0, math.ceil((expiry - now) / 1000) }
