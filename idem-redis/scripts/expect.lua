-- Notes in a record in flight that its end is awaited in another process.
--
-- KEYS[1]  the record
--
-- Replies 1 if it is noted, 0 if the record is not in flight.
if phase ~= 'F' or lease <= now then
    return 0
end
if string.byte(found, 4) ~= 49 then
    redis.call('SETRANGE', KEYS[1], 3, '1')
end
return 1
