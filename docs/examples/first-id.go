// SPDX-License-Identifier: Apache-2.0
package main

import (
	"context"
	"fmt"
	"log"

	"example.com/snowflake"
)

func main() {
	client, err := snowflake.New([]string{"127.0.0.1:7609"}, snowflake.Options{Agent: "my-program"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	id, err := client.NextID(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)
}
