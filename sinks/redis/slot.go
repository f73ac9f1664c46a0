package redis

import (
	"strconv"
	"strings"
	"sync"
)

// sameSlot returns a text that hashes to the slot of key in a cluster. No other key has the same text.
func sameSlot(key string) string {
	if !strings.ContainsAny(key, "{}") {
		return "{" + key + "}"
	}
	tag := tagOf(key)
	if tag == key { // braces that are no tag: "a}b"
		tag = slotTag(slotOf(key))
	}
	return "{" + tag + "}:" + key
}

// tagOf returns the part of a key that decides its slot: the contents of its first braces, or the whole key.
func tagOf(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			return key[open+1 : open+1+n]
		}
	}
	return key
}

const slots = 16384

func slotOf(key string) uint16 { return crc16(tagOf(key)) % slots }

// crc16 is the CRC that Redis uses: polynomial 0x1021, without reflection, initial value 0.
func crc16(s string) (crc uint16) {
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// slotTag returns a text without braces that hashes to the slot. Every slot has such a text of a few digits.
func slotTag(slot uint16) string {
	for n := 0; ; n++ {
		if tag := strconv.Itoa(n); crc16(tag)%slots == slot {
			return tag
		}
	}
}

// markTags returns the hash tags that spread the copies of a view's mark over the slots. Finding them takes some
// 100,000 hashes, so it is done once.
var markTags = sync.OnceValue(func() []string { return spreadTags(copies) })

// spreadTags returns n texts that hash to slots at equal distances.
func spreadTags(n int) []string {
	tags := make([]string, n)
	for i, missing := 0, n; missing > 0; i++ {
		tag := strconv.Itoa(i)
		if slot := int(crc16(tag) % slots); slot%(slots/n) == 0 && tags[slot/(slots/n)] == "" {
			tags[slot/(slots/n)] = tag
			missing--
		}
	}
	return tags
}
