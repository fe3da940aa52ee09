-- Claims a record that is absent or gone; else tells what is there, and changes nothing.
--
-- KEYS[1]  the record
-- ARGV[1]  the new record up to its times (see src/layout.rs)
-- ARGV[2]  the new record after its times
-- ARGV[3]  the lease in milliseconds
-- ARGV[4]  how long the record stays in milliseconds, 2^52 if it stays until it is settled
--
-- Replies 1 if it is claimed, else {now in milliseconds, the record}.
--
-- No `#!lua` here: a script that says what it is would be refused as a whole by a server without memory, and with it
-- the replays. So only its SET is.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + (clock[2] - clock[2] % 1000) / 1000
local found = redis.call('GET', KEYS[1])
if found and (string.byte(found) ~= 1 or struct.unpack('>I8', found, 86) > now) then
    return {now, found}
end
local gone = tonumber(ARGV[4])
if gone == 4503599627370496 then
    redis.call('SET', KEYS[1], ARGV[1] .. struct.pack('>I8I8I8I8', now, now + ARGV[3], gone, gone) .. ARGV[2])
    return 1
end
gone = now + gone
if gone > now then
    -- A number as an argument is written as a float, which takes longer than all else here.
    redis.call('SET', KEYS[1], ARGV[1] .. struct.pack('>I8I8I8I8', now, now + ARGV[3], gone, gone) .. ARGV[2],
        'PXAT', string.format('%d', gone))
elseif found then
    redis.call('DEL', KEYS[1])
end
return 1
