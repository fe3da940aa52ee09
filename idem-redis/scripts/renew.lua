-- Extends the lease; the record still outlives it by as much.
--
-- KEYS[1]  the record
-- ARGV[1]  the owner
-- ARGV[2]  the lease in milliseconds, from now
--
-- Replies 1 if it is renewed, 0 if the record is not the owner's.
if phase ~= 'F' or owner ~= ARGV[1] then
    return 0
end
local renewed = now + ARGV[2]
if gone ~= NEVER then
    gone = renewed + (gone - lease)
end
write(string.sub(found, 1, 61) .. struct.pack('>I8I8I8I8', created, renewed, gone, gone) .. string.sub(found, 94), gone)
return 1
