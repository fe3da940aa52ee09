-- Stores the answer and ends the lease.
--
-- KEYS[1]  the record
-- KEYS[2]  the answer, if it has a key of its own
-- ARGV[1]  the owner
-- ARGV[2]  the answer, or where it is, as it stands in the record
-- ARGV[3]  how long it is replayed, in milliseconds
-- ARGV[4]  how long the record stays, in milliseconds
-- ARGV[5]  the channel of those who wait
--
-- Replies 1 if it is stored, be it by this very step when it was taken before, 2 if this owner stored another one before,
-- which stays, 0 if the record is not its own, -1 if it would be stored but there is no such answer.
if not found or owner ~= ARGV[1] then
    return 0
end
if phase == 'C' and expires > now then
    -- Nothing changes, but who waits for replicas next waits for this very write.
    redis.call('PEXPIREAT', KEYS[1], string.format('%d', gone))
    -- The reply to this step may have been lost: where the answer is apart, its key is the one that the record has.
    return string.sub(found, -#ARGV[2]) == ARGV[2] and 1 or 2
end
if phase ~= 'F' then
    return 0
end
if KEYS[2] and redis.call('EXISTS', KEYS[2]) == 0 then
    return -1
end
expires, gone = now + ARGV[3], now + ARGV[4]
write('\001C' .. string.sub(found, 3, 3) .. '0' .. string.sub(found, 5, 61)
    .. struct.pack('>I8I8I8I8', created, 0, expires, gone) .. string.sub(found, 94, -2) .. ARGV[2], gone)
tell(ARGV[5])
return 1
