// SPDX-License-Identifier: Apache-2.0

// Command client HOST PORT framed|unframed PROTOCOL COMMAND..., see ../official.py.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"snowflake_2010"
)

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

func connect(host, port, framing, protocol string) (*snowflake_2010.SnowflakeClient, error) {
	configuration := &thrift.TConfiguration{
		ConnectTimeout:     60 * time.Second,
		SocketTimeout:      60 * time.Second,
		TBinaryStrictRead:  thrift.BoolPtr(true),
		TBinaryStrictWrite: thrift.BoolPtr(protocol != "unversioned"),
	}
	var transport thrift.TTransport = thrift.NewTSocketConf(net.JoinHostPort(host, port), configuration)
	if strings.HasPrefix(host, "tls:") {
		var err error
		if configuration.TLSConfig, err = tlsConfig(); err != nil {
			return nil, err
		}
		address := net.JoinHostPort(strings.TrimPrefix(host, "tls:"), port)
		transport = thrift.NewTSSLSocketConf(address, configuration)
	}
	if strings.HasPrefix(host, "unix:") {
		address := &net.UnixAddr{Name: strings.TrimPrefix(host, "unix:"), Net: "unix"}
		transport = thrift.NewTSocketFromAddrConf(address, configuration)
	}
	if framing == "framed" {
		transport = thrift.NewTFramedTransportConf(transport, configuration)
	} else {
		transport = thrift.NewTBufferedTransport(transport, 4096)
	}
	var factory thrift.TProtocolFactory = thrift.NewTBinaryProtocolFactoryConf(configuration)
	if protocol == "compact" {
		factory = thrift.NewTCompactProtocolFactoryConf(configuration)
	}
	return snowflake_2010.NewSnowflakeClientFactory(transport, factory), transport.Open()
}

func printID(id int64, err error) error {
	if err == nil {
		fmt.Println(id)
	}
	return err
}

func run(client *snowflake_2010.SnowflakeClient, command []string) error {
	background := context.Background()
	if command[0] == "get_id" {
		count, _ := strconv.Atoi(command[2])
		for i := 0; i < count; i++ {
			if err := printID(client.GetID(background, command[1])); err != nil {
				return err
			}
		}
		return nil
	}
	if err := printID(client.GetWorkerID(background)); err != nil {
		return err
	}
	if err := printID(client.GetDatacenterID(background)); err != nil {
		return err
	}
	return printID(client.GetTimestamp(background))
}

func main() {
	client, err := connect(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := run(client, os.Args[5:]); err != nil {
		fmt.Printf("error %T: %v\n", err, err)
		os.Exit(3)
	}
}
