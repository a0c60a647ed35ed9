// SPDX-License-Identifier: Apache-2.0
import java.util.List;
import snowflake.client.Snowflake;

public class FirstId {
	public static void main(String[] args) {
		try (Snowflake client = new Snowflake(List.of("127.0.0.1:7609"), "my-program")) {
			System.out.println(client.nextId());
		}
	}
}
