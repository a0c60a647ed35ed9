// SPDX-License-Identifier: Apache-2.0

package snowflake

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

const maxFrameBytes = 1 << 20 // five times of what the largest batch takes

// frames is the transport that Thrift's protocol writes calls to and reads replies from. A reply is
// one frame: who reads on would wait for what never comes. Thrift's own knows no such end, and its
// socket no deadline but one for each read.
type frames struct {
	conn   net.Conn
	reader *bufio.Reader
	out    bytes.Buffer
	in     bytes.Buffer

	isDue    bool  // a reply, of which nothing was read
	isSilent bool  // nothing has come since the last call
	err      error // of the connection
}

func newFrames(conn net.Conn) *frames {
	return &frames{conn: conn, reader: bufio.NewReader(conn)}
}

func (f *frames) Write(data []byte) (int, error) {
	if f.out.Len() == 0 {
		f.out.Write(make([]byte, 4)) // for the length
	}
	return f.out.Write(data)
}

func (f *frames) Flush(context.Context) error {
	frame := f.out.Bytes()
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	f.in.Reset()
	f.isDue, f.isSilent = true, true
	_, f.err = f.conn.Write(frame)
	f.out.Reset()
	return f.err
}

func (f *frames) Read(data []byte) (int, error) {
	if f.in.Len() == 0 {
		if !f.isDue {
			return 0, errors.New("it ends too soon")
		}
		f.isDue = false
		if err := f.readFrame(); err != nil {
			return 0, err
		}
	}
	return f.in.Read(data)
}

func (f *frames) readFrame() error {
	var header [4]byte
	if n, err := io.ReadFull(f.reader, header[:]); err != nil {
		f.isSilent, f.err = n == 0, err
		return err
	}
	f.isSilent = false
	length := binary.BigEndian.Uint32(header[:])
	if length == 0 || length > maxFrameBytes {
		return fmt.Errorf("a frame of %d bytes, %d at most", length, maxFrameBytes)
	}
	_, f.err = io.CopyN(&f.in, f.reader, int64(length))
	return f.err
}

func (f *frames) RemainingBytes() uint64 { return uint64(f.in.Len()) }
func (f *frames) Open() error            { return nil }
func (f *frames) IsOpen() bool           { return true }
func (f *frames) Close() error           { return f.conn.Close() }
