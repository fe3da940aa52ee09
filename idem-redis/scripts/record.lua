#!lua flags=allow-oom
-- What each script begins with that changes a record which is there. It may do so without memory, too: a server that is
-- full refuses new claims, and the work under old ones is to end well.
--
-- KEYS[1]  the record
local NEVER = 4503599627370496
local clock = redis.call('TIME')
local now = clock[1] * 1000 + (clock[2] - clock[2] % 1000) / 1000
local found = redis.call('GET', KEYS[1])
local phase, owner, created, lease, expires, gone
if found then
    if string.byte(found) ~= 1 then
        return redis.error_reply('LAYOUT a record has a layout that this release does not know')
    end
    created, lease, expires, gone = struct.unpack('>I8I8I8I8', found, 62)
    if gone > now then
        phase, owner = string.sub(found, 2, 2), string.sub(found, 9, 24)
    else
        -- The server has not reclaimed it yet, but for every caller it is absent.
        found = false
    end
end

-- Writes a record that stays until it is gone.
local function write(record, gone)
    if gone == NEVER then
        redis.call('SET', KEYS[1], record)
    elseif gone > now then
        -- A number as an argument would be written as a float, which takes long.
        redis.call('SET', KEYS[1], record, 'PXAT', string.format('%d', gone))
    else
        redis.call('DEL', KEYS[1])
    end
end

-- Tells those who wait for the record in other processes, if there are any.
local function tell(channel)
    if string.byte(found, 4) == 49 then
        -- Who may not publish has done the step all the same; the others look for themselves.
        redis.pcall('PUBLISH', channel, KEYS[1])
    end
end
