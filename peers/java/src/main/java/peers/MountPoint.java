package peers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Tells whether the JVM finds the mount point of a directory. Where it does not (in a chroot, in some containers),
 * Apache Kafka cannot answer DescribeLogDirs. Exit status 3 in exactly that case.
 *
 * <p>Argument: DIR.
 */
final class MountPoint {
    public static void main(String[] args) throws IOException {
        try {
            Files.getFileStore(Path.of(args[0]));
        } catch (IOException e) {
            if (!"Mount point not found".equals(e.getMessage())) {
                throw e;
            }
            System.exit(3);
        }
    }
}
