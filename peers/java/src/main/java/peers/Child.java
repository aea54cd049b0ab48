package peers;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** A Java process of this class path, its lines of output handed to a listener one by one. */
final class Child {
    private static final List<Child> ALL = new ArrayList<>();

    final String name;
    private final Process process;
    private final Thread reader;

    Child(String name, Consumer<String> listener, Class<?> program, String... args) throws IOException {
        this(name, listener, List.of(), program, args);
    }

    /** Options of the virtual machine may replace those that every child has. */
    Child(String name, Consumer<String> listener, List<String> options, Class<?> program, String... args) throws IOException {
        this.name = name;
        List<String> command = new ArrayList<>(List.of(
                System.getProperty("java.home") + "/bin/java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        String logging = System.getProperty("log4j2.configurationFile");
        if (logging != null) {
            command.add("-Dlog4j2.configurationFile=" + logging);
        }
        command.addAll(options);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), program.getName()));
        command.addAll(List.of(args));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        synchronized (ALL) {
            ALL.add(this);
        }
        reader = new Thread(() -> read(listener));
        reader.setDaemon(true);
        reader.start();
    }

    private void read(Consumer<String> listener) {
        try (BufferedReader in = process.inputReader(StandardCharsets.UTF_8)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                listener.accept(line);
            }
        } catch (IOException e) {
            listener.accept("error " + e);
        }
    }

    void order(String line) throws IOException {
        OutputStream in = process.getOutputStream();
        in.write((line + "\n").getBytes(StandardCharsets.UTF_8));
        in.flush();
    }

    /** Asks the process to leave and waits for its good end. */
    void leave() throws IOException, InterruptedException {
        order("leave");
        if (!process.waitFor(60, TimeUnit.SECONDS) || process.exitValue() != 0) {
            throw new IllegalStateException(name + " did not end well");
        }
        reader.join(10_000);
    }

    /** Sends SIGTERM, on which the program closes what it has open, and waits for its end. */
    void terminate() throws InterruptedException {
        // Not process.destroy(), which stops listening to what the program says while it closes.
        process.toHandle().destroy();
        if (!process.waitFor(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException(name + " did not end on SIGTERM");
        }
        reader.join(10_000);
    }

    /** Kills the process with SIGKILL: nothing in it gets to say anything any more. */
    void kill() throws InterruptedException {
        process.toHandle().destroyForcibly();
        process.waitFor();
        reader.join(10_000);
    }

    static void killAll() {
        synchronized (ALL) {
            ALL.forEach(c -> c.process.destroyForcibly());
        }
    }
}
