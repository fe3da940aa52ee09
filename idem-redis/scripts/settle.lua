-- Gives an answer to a record that nobody runs and that has none.
--
-- KEYS[1]  the record
-- KEYS[2]  the answer, if it has a key of its own
-- ARGV[1]  an owner that nobody is
-- ARGV[2]  the answer, or where it is, as it stands in the record
-- ARGV[3]  how long it is replayed, in milliseconds
-- ARGV[4]  how long the record stays, in milliseconds
-- ARGV[5]  the channel of those who wait
--
-- Replies 1 if it is settled, 2 if the record is in flight or completed, 0 if it is absent, -1 if it would be settled but
-- there is no such answer.
if not found then
    return 0
end
if phase == 'C' then
    -- Perhaps by this very settlement, whose reply was lost.
    return owner == ARGV[1] and 1 or 2
end
if phase == 'F' and lease > now then
    return 2
end
if KEYS[2] and redis.call('EXISTS', KEYS[2]) == 0 then
    return -1
end
expires, gone = now + ARGV[3], now + ARGV[4]
write('\001C' .. string.sub(found, 3, 3) .. '0' .. string.sub(found, 5, 8) .. ARGV[1] .. string.sub(found, 25, 61)
    .. struct.pack('>I8I8I8I8', created, 0, expires, gone) .. string.sub(found, 94, -2) .. ARGV[2], gone)
tell(ARGV[5])
return 1
