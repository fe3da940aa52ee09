#!lua flags=no-writes
-- Reads a record, and by which clock to read it.
--
-- KEYS[1]  the record
--
-- Replies {now in milliseconds, the record}, with when its key expires if its times are relative, or 0 if it is absent.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + (clock[2] - clock[2] % 1000) / 1000
local found = redis.call('GET', KEYS[1])
if found then
    if string.byte(found) ~= 1 then
        return {now, found}
    end
    local created, _, _, gone = struct.unpack('>I8I8I8I8', found, 62)
    if created == 0 then
        -- As a plain SET claimed it: its times are counted from the claim, which only the key's expiry tells.
        return {now, found, redis.call('PEXPIRETIME', KEYS[1])}
    elseif gone > now then
        return {now, found}
    end
end
return 0
