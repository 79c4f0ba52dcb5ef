import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import com.embabel.plan.Plan;
import com.embabel.plan.common.condition.ConditionAction;
import com.embabel.plan.common.condition.ConditionDetermination;
import com.embabel.plan.common.condition.ConditionGoal;
import com.embabel.plan.common.condition.ConditionPlanningSystem;
import com.embabel.plan.common.condition.WorldStateDeterminer;
import com.embabel.plan.goap.astar.AStarGoapPlanner;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.slf4j.LoggerFactory;

/**
 * Embabel's planner on problems of goalport's. It says "ready"; then each line of standard input is a problem as JSON,
 * and the answer is a line with the number of steps of the plan (-1: no plan), its cost, and the median of the
 * milliseconds that planning took.
 *
 * <p>A problem is planned for a second before it is measured, so that the code is compiled for it.
 */
public final class Planning {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long WARM_UP_NANOSECONDS = 1_000_000_000L;
    private static final int RUNS = 5;

    private Planning() {}

    public static void main(String[] arguments) throws Exception {
        ((Logger) LoggerFactory.getLogger("ROOT")).setLevel(Level.WARN);
        BufferedReader problems = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String line = problems.readLine(); line != null; line = problems.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            System.out.flush();
        }
    }

    private static Map<String, Object> answer(JsonNode problem) {
        try {
            return measured(problem);
        } catch (OutOfMemoryError tooMuch) {
            return Map.of("failed", "out of memory");
        }
    }

    private static Map<String, Object> measured(JsonNode problem) {
        Map<String, ConditionDetermination> state = determinations(problem.get("state"));
        ConditionPlanningSystem system = system(problem);
        long warmUntil = System.nanoTime() + WARM_UP_NANOSECONDS;
        do {
            planned(system, state);
        } while (System.nanoTime() < warmUntil);
        List<Double> milliseconds = new ArrayList<>();
        Plan plan = null;
        for (int run = 0; run < RUNS; run++) {
            long began = System.nanoTime();
            plan = planned(system, state);
            milliseconds.add((System.nanoTime() - began) / 1e6);
        }
        milliseconds.sort(null);
        double cost = plan == null ? 0.0 : cost(plan, problem.get("costs"));
        int steps = plan == null ? -1 : plan.getActions().size();
        return Map.of("steps", steps, "cost", cost, "milliseconds", milliseconds.get(RUNS / 2));
    }

    private static double cost(Plan plan, JsonNode costs) {
        return plan.getActions().stream().mapToDouble(each -> costs.get(each.getName()).asDouble()).sum();
    }

    private static Plan planned(ConditionPlanningSystem system, Map<String, ConditionDetermination> state) {
        return new AStarGoapPlanner(WorldStateDeterminer.Companion.fromMap(state)).bestValuePlanToAnyGoal(system);
    }

    private static ConditionPlanningSystem system(JsonNode problem) {
        Set<ConditionAction> actions = new LinkedHashSet<>();
        for (JsonNode each : problem.get("actions")) {
            String name = each.get("name").asText();
            double cost = problem.get("costs").get(name).asDouble();
            actions.add(
                    ConditionAction.Companion.invoke(
                            name,
                            Set.of(),
                            determinations(each.get("requires")),
                            Set.of(),
                            determinations(each.get("effects")),
                            state -> cost,
                            state -> 0.0));
        }
        ConditionGoal goal =
                ConditionGoal.Companion.invoke("goal", determinations(problem.get("goal")), state -> 1.0);
        return new ConditionPlanningSystem(actions, goal);
    }

    private static Map<String, ConditionDetermination> determinations(JsonNode values) {
        Map<String, ConditionDetermination> found = new HashMap<>();
        for (Map.Entry<String, JsonNode> each : values.properties()) {
            found.put(each.getKey(), ConditionDetermination.valueOf(each.getValue().asText().toUpperCase()));
        }
        return found;
    }
}
