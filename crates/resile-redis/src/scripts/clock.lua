-- The time of the server in microseconds, below 2^52 until the year 2112. Each script begins with
-- this text. Times never come from a client, so the clocks of the members need not agree.
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]

