-- Ends the lease without an answer.
--
-- KEYS[1]  the record
-- ARGV[1]  the owner
-- ARGV[2]  what it becomes: X failed, U unknown; - as if this claim had not been granted
-- ARGV[3]  how long it stays bound, in milliseconds, 2^52 if it stays until it is settled
-- ARGV[4]  the channel of those who wait
--
-- Replies 1 if it is released, 0 if the record is not the owner's.
if phase ~= 'F' or owner ~= ARGV[1] then
    return 0
end
local becomes = ARGV[2]
if becomes == '-' then
    becomes = 'X'
    if string.sub(found, 5, 8) == '\000\000\000\001' then
        redis.call('DEL', KEYS[1])
        tell(ARGV[4])
        return 1
    end
end
gone = tonumber(ARGV[3])
if gone ~= NEVER then
    gone = now + gone
end
write('\001' .. becomes .. string.sub(found, 3, 3) .. '0' .. string.sub(found, 5, 61)
    .. struct.pack('>I8I8I8I8', created, 0, gone, gone) .. string.sub(found, 94), gone)
tell(ARGV[4])
return 1
