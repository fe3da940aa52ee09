-- Claims a record that a claim found free, if it is still as it was found.
--
-- KEYS[1]  the record
-- ARGV[1]  the record as it was found
-- ARGV[2]  the new record up to its times
-- ARGV[3]  the lease in milliseconds
-- ARGV[4]  how long the record stays in milliseconds, 2^52 if it stays until it is settled
--
-- Replies 1 if it is claimed, 0 if somebody was faster.
if found ~= ARGV[1] then
    return 0
end
gone = tonumber(ARGV[4])
if gone ~= NEVER then
    gone = now + gone
end
write(ARGV[2] .. struct.pack('>I8I8I8I8', created, now + ARGV[3], gone, gone) .. string.sub(found, 94), gone)
return 1
