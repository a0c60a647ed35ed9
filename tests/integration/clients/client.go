// SPDX-License-Identifier: Apache-2.0

// Command client, see ../official.py. It is built with one of client_*.go, which have newClient for
// their contract; the calls are found by their names.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

const timeout = 60 * time.Second

var out = bufio.NewWriter(os.Stdout)

func tlsConfig() (*tls.Config, error) {
	files := strings.Split(os.Getenv("SNOWFLAKE_TLS"), ",")
	authority, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	own, err := tls.LoadX509KeyPair(files[1], files[2])
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{own}}, err
}

func newSocket(host, port string, configuration *thrift.TConfiguration) thrift.TTransport {
	if strings.HasPrefix(host, "unix:") {
		address := &net.UnixAddr{Name: strings.TrimPrefix(host, "unix:"), Net: "unix"}
		return thrift.NewTSocketFromAddrConf(address, configuration)
	}
	if strings.HasPrefix(host, "tls:") {
		address := net.JoinHostPort(strings.TrimPrefix(host, "tls:"), port)
		return thrift.NewTSSLSocketConf(address, configuration)
	}
	return thrift.NewTSocketConf(net.JoinHostPort(host, port), configuration)
}

func newTransport(host, port, framing string, configuration *thrift.TConfiguration) (thrift.TTransport, error) {
	socket := newSocket(host, port, configuration)
	switch framing {
	case "framed":
		return thrift.NewTFramedTransportConf(socket, configuration), nil
	case "zlib":
		return thrift.NewTZlibTransport(socket, 6)
	case "header":
		return thrift.NewTHeaderTransportConf(socket, configuration), nil
	case "http":
		return thrift.NewTHttpClient("http://" + net.JoinHostPort(host, port) + "/")
	}
	return thrift.NewTBufferedTransport(socket, 4096), nil
}

func newProtocols(name string, configuration *thrift.TConfiguration) thrift.TProtocolFactory {
	switch name {
	case "compact":
		return thrift.NewTCompactProtocolFactoryConf(configuration)
	case "json":
		return thrift.NewTJSONProtocolFactory()
	case "header":
		return thrift.NewTHeaderProtocolFactoryConf(configuration)
	}
	return thrift.NewTBinaryProtocolFactoryConf(configuration)
}

func connect(host, port, framing, protocol string) (thrift.TTransport, interface{}, error) {
	var secure *tls.Config
	if strings.HasPrefix(host, "tls:") {
		var err error
		if secure, err = tlsConfig(); err != nil {
			return nil, nil, err
		}
	}
	configuration := &thrift.TConfiguration{
		TLSConfig: secure,
		ConnectTimeout:     timeout,
		SocketTimeout:      timeout,
		TBinaryStrictRead:  thrift.BoolPtr(true),
		TBinaryStrictWrite: thrift.BoolPtr(protocol != "unversioned"),
	}
	transport, err := newTransport(host, port, framing, configuration)
	if err != nil {
		return nil, nil, err
	}
	client := newClient(transport, newProtocols(protocol, configuration))
	return transport, client, transport.Open()
}

func showStruct(value reflect.Value) {
	separator := ""
	for i := 0; i < value.NumField(); i++ {
		name := strings.Split(value.Type().Field(i).Tag.Get("thrift"), ",")[0]
		field := value.Field(i)
		if field.Kind() == reflect.Ptr {
			if field.IsNil() {
				continue
			}
			field = field.Elem()
		}
		fmt.Fprintf(out, "%s%s=%v", separator, name, field)
		separator = " "
	}
	fmt.Fprintln(out)
}

func show(value reflect.Value) {
	if data, ok := value.Interface().([]byte); ok {
		fmt.Fprintf(out, "%x\n", data)
		return
	}
	switch value.Kind() {
	case reflect.Slice:
		for i := 0; i < value.Len(); i++ {
			show(value.Index(i))
		}
	case reflect.Map:
		for _, key := range value.MapKeys() {
			fmt.Fprintln(out, key, value.MapIndex(key))
		}
	case reflect.Ptr:
		showStruct(value.Elem())
	default:
		fmt.Fprintln(out, value)
	}
}

func method(client interface{}, name string) reflect.Value {
	name = strings.ReplaceAll(name, "_", "")
	value := reflect.ValueOf(client)
	for i := 0; i < value.NumMethod(); i++ {
		if strings.EqualFold(value.Type().Method(i).Name, name) {
			return value.Method(i)
		}
	}
	panic("no call " + name)
}

func call(client interface{}, words []string) error {
	arguments := []reflect.Value{reflect.ValueOf(context.Background())}
	times := 1
	if len(words) == 3 {
		count, _ := strconv.Atoi(words[2])
		arguments = append(arguments, reflect.ValueOf(words[1]))
		if words[0] == "get_id" {
			times = count
		} else {
			arguments = append(arguments, reflect.ValueOf(int32(count)))
		}
	}
	for ; times > 0; times-- {
		results := method(client, words[0]).Call(arguments)
		if err, _ := results[1].Interface().(error); err != nil {
			return err
		}
		show(results[0])
	}
	return nil
}

func main() {
	var transport thrift.TTransport
	var client interface{}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		words := strings.Fields(commands.Text())
		var err error
		if words[0] == "open" {
			if transport != nil {
				transport.Close()
			}
			transport, client, err = connect(words[1], words[2], words[3], words[4])
		} else {
			err = call(client, words)
		}
		if err != nil {
			kind := fmt.Sprintf("%T", err)
			fmt.Fprintf(out, "error %s: %v\n", kind[strings.LastIndex(kind, ".")+1:], err)
		} else {
			fmt.Fprintln(out, ".")
		}
		out.Flush()
	}
}
