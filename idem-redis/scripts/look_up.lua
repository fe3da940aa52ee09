#!lua flags=no-writes
-- Reads a record, and by which clock to read it.
--
-- KEYS[1]  the record
--
-- Replies {now in milliseconds, the record}, or 0 if it is absent.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + (clock[2] - clock[2] % 1000) / 1000
local found = redis.call('GET', KEYS[1])
if found and (string.byte(found) ~= 1 or struct.unpack('>I8', found, 86) > now) then
    return {now, found}
end
return 0
