-- Returns a time that never runs backwards, its distance from the clock, and the step by which the
-- clock ran back since the last write at `before`. The distance was `offset` and grows by the step.
-- So the time goes on at once: nothing refills during the step, and each rest of time stays as it
-- was.
--
-- Each key keeps both numbers. They are at most 2^52, so their sums are exact.
local function steady(before, offset)
    local now = math.min(clock + offset, 2 ^ 52)
    if now < before then
        return before, before - clock, before - now
    end
    return now, offset, 0
end

