package planner

// way is a way to buy what an account serves.
type way string

// The ways, in the order in which equal ones are preferred.
const (
	freeTier       way = "free tier"
	serverless     way = "serverless"
	sharedWay      way = "shared"
	manual         way = "manual"
	autoscale      way = "autoscale"
	sharedReserved way = "shared, reserved"
	manualReserved way = "manual, reserved"
)

var ways = []way{freeTier, serverless, sharedWay, manual, autoscale, sharedReserved, manualReserved}

// shared reports whether all containers of the account share the throughput of its database.
func (w way) shared() bool { return w == freeTier || w == sharedWay || w == sharedReserved }

func (w way) reserved() bool { return w == sharedReserved || w == manualReserved }

// conditional reports whether not every account can be bought so: a subscription has one free tier, and a reservation
// binds for a year.
func (w way) conditional() bool { return w == freeTier || w.reserved() }

// wayNames are the names of ways in a workload.
var wayNames = []string{"free", "serverless", "shared", "manual", "autoscale", "reserved"}

// about describes the way to a person who makes the account.
func (w way) about() string {
	return map[way]string{
		freeTier:       "a free-tier account, 1,000 RU/s and 25 GB for nothing, one for each subscription (--profile small)",
		serverless:     "a serverless account, paid by the request unit",
		sharedWay:      "throughput that all containers share (provision --profile small)",
		manual:         "manual throughput that follows the load",
		autoscale:      "autoscale",
		sharedReserved: "throughput that all containers share, reserved for a year or three",
		manualReserved: "manual throughput that follows the load, what the first month takes reserved for a year or three",
	}[w]
}

// allTime is the number of months in a container that holds all of them.
const allTime = 0

// option is a way to run the account.
type option struct {
	way     way
	rollups bool
	// months is the number of months in one container.
	months int
}

// spans are the lengths of containers. Provision makes those of a month and of a year.
var spans = []int{12, 1, allTime}

// options returns every option. The first one of equal cost is chosen.
func options() (all []option) {
	for _, w := range ways {
		for _, months := range spans {
			all = append(all, option{w, false, months}, option{w, true, months})
		}
	}
	return all
}

func (o option) span() string {
	return map[int]string{
		1: "a container for a month", 12: "a container for a year", allTime: "one container for all time",
	}[o.months]
}

// String names the option.
func (o option) String() string {
	return o.way.about() + ", " + o.span() + map[bool]string{true: ", rollups", false: ", no rollups"}[o.rollups]
}

func (o option) with() string { return o.span() + map[bool]string{true: ", rollups"}[o.rollups] }
