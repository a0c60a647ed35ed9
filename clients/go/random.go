// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"crypto/rand"
	"encoding/binary"
)

// random is 0 or more, and below that. The numbers of math/rand would be the same in each process: Go
// seeds it from 1.20 on, and only for modules that say so.
func random(below int) int {
	var bytes [4]byte
	_, _ = rand.Read(bytes[:])
	return int(binary.BigEndian.Uint32(bytes[:]) % uint32(below))
}

func shuffle[T any](list []T) {
	for i := len(list) - 1; i > 0; i-- {
		j := random(i + 1)
		list[i], list[j] = list[j], list[i]
	}
}
