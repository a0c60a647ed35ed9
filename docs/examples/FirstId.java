// SPDX-License-Identifier: Apache-2.0
import com.example.snowflake.Snowflake;

public class FirstId {
	public static void main(String[] args) {
		try (Snowflake client = Snowflake.builder("127.0.0.1:7609").agent("my-program").build()) {
			System.out.println(client.nextId());
		}
	}
}
