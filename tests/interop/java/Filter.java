import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import software.amazon.event.ruler.Ruler;

/**
 * AWS' own matcher on stdin and stdout. An input line is {@code PATTERN EVENT}, both JSON in base64. The output line is
 * {@code true}, {@code false} or {@code raised CLASS}.
 */
public final class Filter {
    private Filter() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split(" ");
            out.println(matched(text(fields[0]), text(fields[1])));
        }
        out.flush();
    }

    private static String matched(String pattern, String event) {
        try {
            return String.valueOf(Ruler.matchesRule(event, pattern));
        } catch (Exception raised) {
            return "raised " + raised.getClass().getName();
        }
    }

    private static String text(String encoded) {
        return new String(Base64.getDecoder().decode(encoded), StandardCharsets.UTF_8);
    }
}
