package storage.benthic;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.jna.Pointer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LibraryTest {
    /** Opens a store in a process that finds libraries only in one directory, and prints the error. */
    public static final class Open {
        public static void main(String[] arguments) {
            try {
                Store.open("mem:").close();
                System.out.println("opened");
            } catch (BenthicException error) {
                System.out.println(error.kind() + ": " + error.getMessage());
            }
        }
    }

    private static String open(Path directory) throws Exception {
        ProcessBuilder builder = new ProcessBuilder(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Djna.library.path=" + directory,
                "-cp", System.getProperty("java.class.path"), Open.class.getName()));
        builder.environment().remove("LD_LIBRARY_PATH");
        Process process = builder.redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        return output;
    }

    @Test
    void aMissingLibraryIsAnError(@TempDir Path directory) throws Exception {
        String output = open(directory);
        assertTrue(output.startsWith("UNSUPPORTED: the C library libbenthic.so.1 cannot be loaded"), output);
        assertTrue(output.contains("jna.library.path"), output);
    }

    /** A library without the functions of this version. */
    @Test
    void aLibraryThatLacksFunctionsIsAnError(@TempDir Path directory) throws Exception {
        Path source = directory.resolve("old.c");
        Files.writeString(source, "const char *benthic_version(void) { return \"0.0.1\"; }\n");
        Process cc = new ProcessBuilder("cc", "-shared", "-fPIC", "-o", directory.resolve("libbenthic.so.1").toString(),
                source.toString()).inheritIO().start();
        assertEquals(0, cc.waitFor());
        String output = open(directory);
        assertTrue(output.startsWith("UNSUPPORTED: the C library libbenthic.so.1 is too old"), output);
    }

    @Test
    void versionsCompareByTheirNumbers() {
        for (String version : List.of("0.0.9", "0.0.99-3-gabc", "", "x.y.z", "1")) {
            assertNotNull(Library.checkVersion(version), version);
        }
        for (String version : List.of(Library.VERSION_MIN, "0.1.0+12.gabcdef", "v0.1.1", "1.0.0", "0.10.0")) {
            assertNull(Library.checkVersion(version), version);
        }
    }

    @Test
    void theKindsAreThoseOfTheLibrary() throws Exception {
        Library.require();
        com.sun.jna.Function name = com.sun.jna.NativeLibrary.getInstance("libbenthic.so.1").getFunction("benthic_kind_name");
        for (int number = 3; number <= 15; number++) {
            Pointer found = (Pointer) name.invoke(Pointer.class, new Object[] {number});
            assertEquals(Kind.of(number).name().toLowerCase(java.util.Locale.ROOT), found.getString(0, "UTF-8"));
        }
    }
}
