package group

import "unicode/utf16"

// PartitionFor is the partition of __consumer_offsets that holds a group, and
// with it the group's coordinator: Java's String.hashCode of the id over its
// UTF-16 units, made positive as Kafka's Utils.abs does (the smallest integer
// becomes 0), modulo the number of partitions.
func PartitionFor(groupID string, partitions int32) int32 {
	var h int32
	for _, r := range groupID {
		if r1, r2 := utf16.EncodeRune(r); r >= 0x10000 {
			h = 31*(31*h+r1) + r2
		} else {
			h = 31*h + r
		}
	}
	if h == -1<<31 {
		return 0
	}
	return max(h, -h) % partitions
}
