package storage.benthic;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class ExampleTest {
    /** Maven runs tests in the directory of the project. */
    private static final Path TOUR = Path.of("examples", "Tour.java");

    private static String tour(String uri) throws Exception {
        Process process = new ProcessBuilder(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Djna.library.path=" + System.getProperty("jna.library.path", ""), "-cp",
                System.getProperty("java.class.path"), TOUR.toString(), uri)).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        return output;
    }

    @Test
    void theTourRuns() throws Exception {
        for (String uri : List.of("mem:", "file:" + Engines.directory())) {
            String output = tour(uri);
            assertTrue(output.contains("13 bytes: hello, world!\nseen = 1\nobject greeting\n"), output);
        }
    }
}
